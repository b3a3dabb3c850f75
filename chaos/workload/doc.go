// Package workload puts mixed load on a broker, or on all nodes of a cluster, and writes every call into a ledger.History.
//
// Producers push batches over several queues and partitions, repeat some of their messages, and resend what was cut
// off. Consumers of several groups, queue mode among them, pop with leases and settle what they get in every way the
// contract has: whole, in part, failed, handed back, dead-lettered, in transactions with pushes to another queue, too
// late, or not at all. Nothing here judges an answer; package ledger does that afterwards.
//
// All choices come from one seed. What the broker and the scheduler do with them is not repeatable, so a seed gives
// the same mixture, not the same run.
package workload
