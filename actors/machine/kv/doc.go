// Package kv is the pure machine of the KV store (state 2) and of the locks that lie in it (state 4).
//
// A call is judged first, which changes nothing, and then committed: Judge decides every operation against the rows as they
// are before the call, Plan.Commit writes what was decided and evaluates the reads after that. So a transaction judges its
// operations among its other guards and commits them with its other effects (state 2.12), and a call alone does both at once
// (Execute). The reader of Commit shows what is written to its writer, as that of a batch does.
//
// Promises:
//
//  1. A row that has expired counts as none, whether it has been swept or not (state 2.7). Sweep changes nothing that a reader
//     sees, except for the number of rows of a namespace, which counts what is stored (state 2.11).
//  2. Versions come from one counter, which rises with every write of the group. So no version is given twice, and those of a
//     key rise, also when it was deleted or had expired in between (state 2.1).
//  3. A call that is refused, or cancelled by a required operation, changes nothing.
//  4. What a tenant has, and how many rows a namespace has, is counted when a row is written, never found by walking.
//
// The machine keeps nothing in memory: everything that it knows is read from the rows, so a command that is rolled back
// leaves nothing behind. The rows of a key, all written with it: the row itself; its place in the order of expiry, when it
// has one; its place among the rows of a bucket, when its value is so large that it lies in a chunk. Besides these there are
// the number of rows of each namespace, rows and bytes of each tenant, and the counters of the group.
//
// A permit of a lock is a row of the namespace queen-locks, and its token the version of that row.
package kv
