// Package cursor is the pure machine of one (partition, group): where the group stands in the partition, the lease on the
// batch it is working on, the charged failures and the delivery attempts (messaging 5.5, 5.6, 5.9, 6, 8.2, 8.4 and 17).
//
// State is a value. A method either returns an answer or changes its receiver; none keeps a clock, a store or a
// goroutine, and equal inputs give equal states, verdicts and bytes on every node. A copy of a State is a snapshot: no
// method writes through memory that two copies share. So a transaction tries its steps on copies and keeps or drops them.
//
// The caller resolves transaction ids to offsets (State.Lookup says where to look), stores the row (State.AppendTo), and
// files the dead letters that an ack asks for. One goroutine at a time may use a State.
//
// Promises:
//
//  1. At most one lease is live, and what it covers is the contiguous range from the cursor to its end (I4).
//  2. The cursor moves only forward, except by Seek and UndoDelivery (I5).
//  3. No message at or above the cursor is passed unless it was completed, is implicitly done below a completed or
//     dead-lettered one, was filed, dropped or sought past, or is gone by retention.
//  4. A call that fails changes nothing; a failed item changes nothing and its lease survives.
//  5. A lease that has ended is never live again, however many terms follow.
//  6. Equal states have equal bytes, and Decode accepts no other spelling of them.
//
// Times are Unix microseconds of leader time. A lease or a delay that ends at instant t is over at t. Expired leases are
// noticed lazily: the row keeps them until something replaces them.
//
// Retention is no command here. A cursor below the log start counts as having moved to it (messaging 15), with everything
// that a move brings; the row says so from the next change on.
package cursor
