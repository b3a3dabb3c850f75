// Package cluster runs three or five real brokers as one cluster on this machine, puts load on all of them, does to them
// what happens to machines and networks, and judges the books (package ledger).
//
// Each node is a process of its own with its own directory. What the nodes say to each other goes through a Network, which
// can cut, hold back and slow down every ordered pair of them; what clients say does not, so that a node behind a cut can
// still be asked. It needs no privileges. The nodes must not use TLS on the raft port: the proxy reads who calls.
//
// A scenario is a test: it opens a scene (cluster, load, meters), does its harm, checks what its row of operations.md 10
// expects, and ends with the comparison of 10.1 (Verify): through every node separately everything acknowledged is there once,
// all nodes have applied the same and hold the same, are at 200, and have logged nothing that nobody expects.
//
// Measured times are compared with the specification plus what the machine itself stood still meanwhile (Stalls): another
// process that takes the processor or the disk is no fault of the broker. Each run prints one JSON line for the record.
package cluster
