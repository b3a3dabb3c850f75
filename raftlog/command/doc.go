// Package command defines what travels in the Raft log: entries, the commands they carry, and the results that applying a
// command produces on every node.
//
// A command is built by the node that serves the client. It carries everything its execution needs: names, minted ids,
// payload bytes, deadlines as durations. It never carries anything that apply would have to look up in a clock, a random
// source or the environment. The leader packs commands into an entry, whose header holds the leader's time, a random seed
// and the settings that influence results (architecture 3).
//
// Promises:
//
//  1. Encoding is deterministic: equal values give equal bytes.
//  2. Decoding never panics and never allocates more than a small multiple of its input; it refuses trailing bytes,
//     unknown opcodes and unknown versions.
//  3. Decoded byte slices alias the input. Whoever keeps them past the life of the input copies them.
//
// The package knows nothing of actors, stores or Raft.
package command
