// Package actors is the state of one Raft group at work: the actors that own it, the apply actor that executes committed
// entries, and the calls that handlers make (push, pop, ack and the rest).
//
// The log calls Apply, Flush and DurablePoint of a Broker; handlers call everything else, from any goroutine. What an
// actor owns is changed by the apply actor alone and can be loaded from the store again at any moment; everything else,
// such as parked pops, may be lost at any moment and costs a repetition.
//
// The rules of the contract stand in the pure machines under machine: one for each kind of state, without clocks, stores
// or goroutines. DESIGN.md beside this file has the flow, the numbered invariants and the reasons.
package actors
