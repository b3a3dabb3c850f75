// Package trace is the pure machine of traces: events that applications report about messages (state 7). A trace belongs
// to a tenant and an address, which need not name a message that exists, and outlives queue and partition: it keeps their
// names as they were when it was recorded.
//
// Traces are numbered in the order of apply, and their times rise with the numbers, because no two commands have the same
// stamp (architecture 5). So every list that has the newest first is a walk down the numbers, and the oldest traces are the
// lowest numbers: retention removes from there on and never passes over what it has removed before.
//
// Counts are kept, never found by walking: how many traces there are, how many names a tenant has, and for each name how
// many traces and how many messages carry it.
package trace
