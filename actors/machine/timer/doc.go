// Package timer is the pure machine of timers: messages that wait to be pushed (state 3). A timer is one row under its tenant,
// queue and key, and one place in the order of firing; a tenant has a row that counts what it has pending.
//
// Promises:
//
//  1. A timer fires at most once: what appends its message deletes it, in the same step.
//  2. It never fires before its deliverAt, by the stamp of the command that fires it, whatever the leader has planned.
//  3. It never fires after a cancel that found it, and never with what a reschedule has replaced: every write of a row gives it
//     a number that no row had before, and a planned timer names the number that was planned.
//  4. What fires is taken in the order of deliverAt, except that a timer which was refused waits for its pause to end.
//  5. Nothing walks across the places of timers that are gone (architecture 7). The first place is stored: whether something is
//     due is one read, and finding what is due begins there. The machine remembers some places behind it, see front.
//
// The order is by the instant from which a timer may fire: its deliverAt, but not below the stamp of the command that wrote the
// row. So places are added at the end of time that has passed, however negative a delay is; deliverAt orders those of one instant.
//
// A payload above 4 KiB is a chunk, with a row that finds the timer by the bucket of it. The machine neither decompresses nor encrypts: the leader does, and its command carries what
// is appended. It does not push either: it returns what is to be appended and what is to be filed, and the caller does both in
// the same entry.
package timer
