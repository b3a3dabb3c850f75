// Package soak pushes, consumes and lets retention delete, at a steady rate for a long time, and watches what must
// stay the same: disk against live bytes, memory, the latency of a push, and that nothing deleted is ever seen again.
//
// The load is exact, so that every answer can be judged when it comes, without a record of the run: message n of a
// partition is pushed with a txid and a payload that follow from n and must get offset n; a consumer must receive the
// numbers in order and once. Of the queue churn all partitions but one in a hundred are consumed, and what was
// consumed is deleted after a while (rule 2 of messaging.md 15); the rest is never consumed and stays, scattered over
// everything that could otherwise be given back. Of the queue ageing nothing is consumed and everything is deleted by
// age (rule 1). In the middle, or more often, the broker is killed and started again.
package soak
