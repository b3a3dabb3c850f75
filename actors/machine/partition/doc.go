// Package partition is the pure machine of one partition's log: offsets, write stamps, deduplication, visibility,
// retention. It reads through a Reader, writes through a Writer and knows no clock, no actor and no database.
//
// The messages of one push form an append: one chunk in the entry's block and one reference to it. The newest references
// stand inside the head row, so that a small push is one small write and a small partition loads with one read. When they
// outgrow about 1 KiB they move to a page of their own. A reference carries the 128-bit hashes of the transaction ids of
// its messages; what retention removes inside the hash window leaves its hashes and ids behind in hash rows.
//
// Promises:
//
//  1. Offsets are gapless, and stamps rise strictly within the partition (I3).
//  2. A transaction id inside the dedup window is found whatever happened to its message (I7). The index in memory only
//     proposes; every match is confirmed against a stored hash.
//  3. Results and writes depend on the stored state and the arguments alone, never on how long the machine has lived:
//     the index and the remembered pages are caches (I1, I10).
//  4. No step writes or walks without bound. Work that does not fit is continued by the next call.
//  5. No scan starts at the front of a prefix where removed keys may lie; every one starts from a position in the head.
//
// After any error, and after a rollback of what it wrote, a machine must be thrown away and loaded again.
package partition
