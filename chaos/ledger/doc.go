// Package ledger keeps the books of a run and judges them: what every client was told, against what the broker holds
// in the end.
//
// A workload writes each call into a History before it sends it and closes it with the answer. Check compares the
// history with a State that was read afterwards and reports every broken promise of messaging.md section 16:
//
//	lost          an acknowledged push is not in the log, or not at the offset that was answered (16.1)
//	duplicate     one transactionId is stored twice in a partition (16.5)
//	gap           the offsets of a partition are not gapless (16.2)
//	order         messages stand in another order than their pushes happened in, or a group received them so (16.2)
//	phantom       the log holds what nobody pushed, or what was refused
//	torn          of the messages of one push for one partition some are stored and some are not (4.4)
//	altered       a message changed its payload, its transactionId or its id
//	double lease  two leases of one (partition, group) must have been live at one instant (16.3)
//	redelivery    a message came back to a group that had completed it (16.4)
//	transaction   a transaction took effect in part (16.6)
//	dead letter   a row is missing, or stands there without a reason, or with a wrong retryCount (6.5)
//	position      a group did not end at the tail although it consumed everything
//	cursor        no order of the calls explains the answers by the reference model (section 17)
//	divergent     two nodes of a cluster hold different things after applying the same log
//	undecided     too many calls of unknown outcome stood open at once to decide the rule above
//
// The rules are pure: they read no clock and no socket. Outcomes are those of cluster.md 8.5: a call happened, it did
// not happen, or nobody knows. A call of unknown outcome is allowed both, and a call that is still open is one of
// them, so that a history can be judged while the load goes on.
//
// A run on a cluster writes a replicated history (NewReplicatedHistory): the end of a process proves nothing then, and a call of
// unknown outcome may take effect until a write that was sent after its deadline has been acknowledged. Each node is judged
// against the books, and against the other nodes (CheckReplicas).
//
// What the package does not judge: conflation, delays, retention, seeks and acks without a lease. No workload that
// writes histories uses them.
package ledger
