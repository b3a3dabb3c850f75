// Package query holds the read models behind the console routes: what the rows of a store view say about queues, groups,
// messages and dead letters. It asks no actor and changes nothing. Every walk takes a context and ends with its error, so
// that one request over a million partitions ends at its deadline.
package query
