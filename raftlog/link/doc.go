// Package link carries commands and calls from a node to the leader of its group, over one long-lived connection.
//
// A command goes one way: its outcome is found in the log, by its request id. Only a refusal comes back, and means that the
// leader will not propose the command (again). A call has one answer; a caller that gives up says so, and the context of the
// callee ends. When the connection breaks, every call ends with ErrBroken, and what became of the commands is unknown.
//
// Both sides write through a buffer that a goroutine of its own empties, so that nobody who sends waits for the network, and
// many small messages leave in one packet.
package link
