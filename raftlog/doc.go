// Package raftlog is the replicated log of one Raft group: it takes commands, packs them into entries, has them committed,
// and hands committed entries to the state machine in order. DESIGN.md has the shape and the reasons.
//
// Promises:
//
//  1. An entry is handed to the state machine only after a majority of the voters, this node included when it leads, has
//     fsynced it; entries come in log order, each once per process, none at or below the state machine's own applied index.
//  2. A proposal is applied, or told to be dropped, or both when its outcome was unknown in between. It is never forgotten
//     silently, except by Close after its Dropped has been called. A dropped proposal whose reason is not ErrOutcomeUnknown
//     is never applied.
//  3. The first command that is applied in a term is TermStart. No claim or read is served before it.
//  4. Stamps rise strictly over the commands of the whole log, whatever the wall clock does.
//  5. The log is never cut above an index that the state machine has called durable.
//  6. What was read back is what was written: every record carries a checksum, the whole log is verified at Open, and
//     damage is an error that names file and index.
//  7. After a failed append or a failed apply nothing is acknowledged any more; the process stays up and says why.
//
// The package knows nothing of actors, HTTP or the store. It does not know what a command means.
package raftlog
