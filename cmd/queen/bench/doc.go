// Package bench is the load generator behind `queen bench`: push, pop, or mixed (push, pop and ack).
//
// What its numbers promise:
//
//  1. Latency is measured from the scheduled instant. With a rate (open loop) a slow answer delays the start of the requests
//     behind it, and that delay counts; without a rate (closed loop) the schedule of a client is its previous answer.
//     How late the generator itself started requests is reported beside it.
//  2. Latency and rates count only what falls into the measured window, after the warm-up.
//  3. Nothing is sampled: every request is recorded in an HDR histogram with three significant digits, and the maximum is exact.
//  4. Mixed mode accounts for every message. A ledger follows each stream of messages (one producer, one partition) and finds
//     what is missing, delivered twice, out of order, in the wrong partition or altered.
//  5. A push without a known outcome is sent again with the same transaction ids until the outcome is known, so that a
//     failing broker does not turn into a wrong count.
//
// The generator shares the machine with the broker in most runs, so it is built to be cheap: one connection and one reused
// buffer per client, payloads copied from a prebuilt pad, answers recognised by byte counting, and a scanner that never
// allocates. Its own CPU time is part of the result.
package bench
