package api

import "queen/httpfront"

// Routes is the routing table (messaging 3).
func (a *API) Routes(server *httpfront.Server) []httpfront.Route {
	const (
		public    = httpfront.LevelPublic
		readOnly  = httpfront.LevelReadOnly
		writeOnly = httpfront.LevelWriteOnly
		readWrite = httpfront.LevelReadWrite
		admin     = httpfront.LevelAdmin
		pop       = httpfront.ShapePop
		plain     = httpfront.ShapeSuccess
		fetch     = httpfront.ShapeFetch
		kv        = httpfront.ShapeKV
		locks     = httpfront.ShapeLocks
		timers    = httpfront.ShapeTimers
	)
	on := a.answering
	return []httpfront.Route{
		{Method: "POST", Pattern: "/api/v1/push", Level: writeOnly, Handler: on(a.push), Admit: true},
		{Method: "GET", Pattern: "/api/v1/pop", Level: readWrite, Handler: on(a.discover), Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue", Level: readWrite, Handler: on(a.popQueue), Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue/partition/:partition", Level: readWrite, Handler: on(a.popPartition), Refusal: pop},
		{Method: "POST", Pattern: "/api/v1/ack", Level: readWrite, Handler: on(a.inDoubt(a.ack))},
		{Method: "POST", Pattern: "/api/v1/ack/batch", Level: readWrite, Handler: on(a.inDoubt(a.ack))},
		{Method: "POST", Pattern: "/api/v1/lease/:leaseId/extend", Level: readWrite, Handler: on(a.extend)},
		{Method: "POST", Pattern: "/api/v1/transaction", Level: readWrite, Handler: on(a.transaction), Admit: true},

		{Method: "POST", Pattern: "/api/v1/configure", Level: readWrite, Handler: on(a.configure)},
		{Method: "GET", Pattern: "/api/v1/resources/queues", Level: readOnly, Handler: on(a.listQueues)},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue", Level: readOnly, Handler: on(a.describeQueue)},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue/depth", Level: readOnly, Handler: on(a.depth)},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue/sizes", Level: readOnly, Handler: on(a.sizes)},
		{Method: "DELETE", Pattern: "/api/v1/resources/queues/:queue", Level: admin, Handler: on(a.deleteQueue)},
		{Method: "GET", Pattern: "/api/v1/resources/partitions", Level: readOnly, Handler: on(a.listPartitions)},
		{Method: "GET", Pattern: "/api/v1/resources/overview", Level: readOnly, Handler: on(a.overview)},
		{Method: "GET", Pattern: "/api/v1/resources/namespaces", Level: readOnly, Handler: on(a.namespaces)},
		{Method: "GET", Pattern: "/api/v1/resources/tasks", Level: readOnly, Handler: on(a.tasks)},

		{Method: "GET", Pattern: "/api/v1/consumer-groups", Level: readOnly, Handler: on(a.listGroups)},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/lagging", Level: readOnly, Handler: on(a.lagging)},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/:group", Level: readOnly, Handler: on(a.describeGroup)},
		{Method: "DELETE", Pattern: "/api/v1/consumer-groups/:group", Level: admin, Handler: on(a.deleteGroup)},
		{Method: "DELETE", Pattern: "/api/v1/consumer-groups/:group/queues/:queue", Level: admin, Handler: on(a.deleteGroupOnQueue)},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/queues/:queue/seek", Level: readWrite, Handler: on(a.seekQueue), Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Level: readWrite, Handler: on(a.seekPartition), Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/subscription", Level: readWrite, Handler: on(a.changeSubscription), Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/positions", Level: readWrite, Handler: on(a.positions)},

		{Method: "GET", Pattern: "/api/v1/messages", Level: readOnly, Handler: on(a.listMessages)},
		{Method: "GET", Pattern: "/api/v1/messages/:partitionId/:transactionId", Level: readOnly, Handler: on(a.describeMessage)},
		{Method: "DELETE", Pattern: "/api/v1/messages/:partitionId/:transactionId", Level: readWrite, Handler: on(a.deleteMessage)},
		{Method: "POST", Pattern: "/api/v1/messages/:partitionId/:transactionId/retry", Level: readWrite, Handler: on(a.inDoubt(a.retryMessage)), Admit: true},
		{Method: "GET", Pattern: "/api/v1/dlq", Level: readOnly, Handler: on(a.listDeadLetters)},
		{Method: "DELETE", Pattern: "/api/v1/dlq", Level: admin, Handler: on(a.purgeDeadLetters)},
		{Method: "POST", Pattern: "/api/v1/dlq/:id/replay", Level: readWrite, Handler: on(a.inDoubt(a.replayDeadLetter)), Admit: true},

		{Method: "POST", Pattern: "/api/v1/traces", Level: readWrite, Handler: on(a.recordTrace), Admit: true},
		{Method: "GET", Pattern: "/api/v1/traces/names", Level: readOnly, Handler: on(a.listTraceNames)},
		{Method: "GET", Pattern: "/api/v1/traces/by-name/:traceName", Level: readOnly, Handler: on(a.listTraces)},
		{Method: "GET", Pattern: "/api/v1/traces/:partitionId/:transactionId", Level: readOnly, Handler: on(a.describeTraces)},

		{Method: "POST", Pattern: "/api/v1/kv", Level: readWrite, Handler: on(a.kv), Refusal: kv},
		{Method: "GET", Pattern: "/api/v1/kv/:ns/*key", Level: readOnly, Handler: on(withoutQuery(a.getRow)), Refusal: kv},
		{Method: "PUT", Pattern: "/api/v1/kv/:ns/*key", Level: readWrite, Handler: on(withoutQuery(a.putRow)), Refusal: kv},
		{Method: "DELETE", Pattern: "/api/v1/kv/:ns/*key", Level: readWrite, Handler: on(withoutQuery(a.deleteRow)), Refusal: kv},
		{Method: "GET", Pattern: "/api/v1/resources/kv/namespaces", Level: readOnly, Handler: on(withoutQuery(a.listKVNamespaces)), Refusal: kv},
		{Method: "POST", Pattern: "/api/v1/resources/kv/list", Level: readOnly, Handler: on(withoutQuery(a.listKV)), Refusal: kv},
		{Method: "POST", Pattern: "/api/v1/locks", Level: readWrite, Handler: on(a.locks), Refusal: locks},

		{Method: "POST", Pattern: "/api/v1/timers", Level: writeOnly, Handler: on(a.changeTimers), Refusal: timers},
		{Method: "GET", Pattern: "/api/v1/timers/:queue", Level: readOnly, Handler: on(a.readTimers), Refusal: timers},
		{Method: "GET", Pattern: "/api/v1/timers/:queue/*timerKey", Level: readOnly, Handler: on(a.peekTimer), Refusal: timers},
		{Method: "DELETE", Pattern: "/api/v1/timers/:queue/*timerKey", Level: readWrite, Handler: on(a.cancelTimer), Refusal: timers},

		{Method: "POST", Pattern: "/api/v1/fetch", Level: readOnly, Handler: on(a.fetch), Refusal: fetch},
		{Method: "POST", Pattern: "/api/v1/fetch/offsets", Level: readOnly, Handler: on(a.fetchOffsets), Refusal: fetch},
		{Method: "POST", Pattern: "/api/v1/partitions/changed", Level: readOnly, Handler: on(a.changed), Refusal: fetch},

		{Method: "GET", Pattern: "/api/v1/status", Level: readOnly, Handler: on(ranged(a.statusSummary))},
		{Method: "GET", Pattern: "/api/v1/status/queues", Level: readOnly, Handler: on(ranged(a.statusQueues))},
		{Method: "GET", Pattern: "/api/v1/status/queues/:queue", Level: readOnly, Handler: on(ranged(a.statusOfQueue))},
		{Method: "GET", Pattern: "/api/v1/status/analytics", Level: readOnly, Handler: on(ranged(a.statusAnalytics))},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-lag", Level: readOnly, Handler: on(ranged(a.queueLag))},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-ops", Level: readOnly, Handler: on(ranged(a.queueOps))},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-parked-replicas", Level: readOnly, Handler: on(ranged(a.queueParked))},
		{Method: "GET", Pattern: "/api/v1/analytics/retention", Level: readOnly, Handler: on(ranged(a.retention))},
		{Method: "GET", Pattern: "/api/v1/analytics/workload", Level: readOnly, Handler: on(ranged(a.workload))},
		{Method: "GET", Pattern: "/api/v1/analytics/dlq-signatures", Level: readOnly, Handler: on(ranged(a.deadLetterSignatures))},
		{Method: "GET", Pattern: "/api/v1/analytics/partition-liveness", Level: readOnly, Handler: on(ranged(a.partitionLiveness))},
		{Method: "GET", Pattern: "/api/v1/analytics/system-metrics", Level: readOnly, Handler: on(ranged(a.systemMetrics))},
		{Method: "GET", Pattern: "/api/v1/analytics/worker-metrics", Level: readOnly, Handler: on(ranged(a.workerMetrics))},
		{Method: "POST", Pattern: "/api/v1/stats/refresh", Level: admin, Handler: on(a.refreshStats)},
		{Method: "GET", Pattern: "/api/v1/system/config", Level: admin, Handler: on(ofNode(a.settings))},
		{Method: "GET", Pattern: "/api/v1/system/kv-timers", Level: admin, Handler: on(ofNode(a.describeSwitches))},
		{Method: "POST", Pattern: "/api/v1/system/kv-timers", Level: admin, Handler: on(ofNode(a.changeSwitches))},
		{Method: "GET", Pattern: "/api/v1/system/raft/state-hash", Level: admin, Handler: on(ofNode(a.stateHash))},
		{Method: "GET", Pattern: "/api/v1/raft/status", Level: readOnly, Handler: on(a.raftStatus), Early: true},
		{Method: "GET", Pattern: "/api/v1/raft/members", Level: readOnly, Handler: on(a.raftMembers), Early: true},
		{Method: "GET", Pattern: "/api/v1/raft/liveness", Level: readOnly, Handler: on(a.raftLiveness), Early: true},
		{Method: "GET", Pattern: "/api/v1/system/raft/membership", Level: admin, Handler: on(a.membership), Early: true},
		{Method: "POST", Pattern: "/api/v1/system/raft/membership/learners", Level: admin, Handler: on(a.addLearner), Early: true},
		{Method: "POST", Pattern: "/api/v1/system/raft/membership/promote", Level: admin, Handler: on(a.promote), Early: true},
		{Method: "POST", Pattern: "/api/v1/system/raft/membership/replace", Level: admin, Handler: on(a.replaceMember), Early: true},
		{Method: "PUT", Pattern: "/api/v1/system/raft/membership/voters", Level: admin, Handler: on(a.setVoters), Early: true},
		{Method: "PUT", Pattern: "/api/v1/system/raft/membership/members/:id", Level: admin, Handler: on(a.setAddress), Early: true},
		{Method: "DELETE", Pattern: "/api/v1/system/raft/membership/members/:id", Level: admin, Handler: on(a.removeMember), Early: true},
		{Method: "POST", Pattern: "/api/v1/system/raft/transfer", Level: admin, Handler: on(a.transfer), Early: true},
		{Method: "GET", Pattern: "/health", Level: public, Handler: on(a.health), Head: true, Early: true},
		// Open by default, by JWT_SKIP_PATHS: an operator may close them (operations 6.4).
		{Method: "GET", Pattern: "/metrics", Level: readOnly, Handler: on(a.metrics), Head: true, Early: true},
		{Method: "GET", Pattern: "/metrics/prometheus", Level: readOnly, Handler: on(page(server.MetricsPage(a.writeMetrics))), Head: true, Early: true},
		{Method: "GET", Pattern: "/status", Level: readOnly, Handler: on(a.status), Early: true},
	}
}

// handler answers a request, or returns why it cannot.
type handler func(r *httpfront.Request) error

// answering counts the requests of a handler and answers its errors.
func (a *API) answering(handle handler) httpfront.Handler {
	return func(r *httpfront.Request) {
		a.stats.Requests.Add(1)
		if err := handle(r); err != nil {
			a.fail(r, err)
		}
	}
}

// page is a handler that always has an answer.
func page(show httpfront.Handler) handler {
	return func(r *httpfront.Request) error {
		show(r)
		return nil
	}
}
