// Package logging turns zerolog events into the two line formats of operations 3.6:
//
//	2026-10-05T09:00:00.123Z WARN raft: raft storage pressure changed full=true
//	{"ts":"2026-10-05T09:00:00.123Z","level":"WARN","target":"raft","msg":"raft storage pressure changed","full":true}
//
// The phrases that operators alert on stand in the message of an event, never split between target and message, so that both
// formats can be searched for the same text.
//
// zerolog's own field names are process-wide variables; this package leaves them alone and rewrites each finished event
// instead. Events are rare (nothing per message above debug), so the second pass costs nothing that shows.
package logging
