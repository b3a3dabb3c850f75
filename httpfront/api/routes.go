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
	)
	return a.counted([]httpfront.Route{
		{Method: "POST", Pattern: "/api/v1/push", Level: writeOnly, Handler: a.push, Admit: true},
		{Method: "GET", Pattern: "/api/v1/pop", Level: readWrite, Handler: a.discover, Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue", Level: readWrite, Handler: a.popQueue, Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue/partition/:partition", Level: readWrite, Handler: a.popPartition, Refusal: pop},
		{Method: "POST", Pattern: "/api/v1/ack", Level: readWrite, Handler: a.ack},
		{Method: "POST", Pattern: "/api/v1/ack/batch", Level: readWrite, Handler: a.ack},
		{Method: "POST", Pattern: "/api/v1/lease/:leaseId/extend", Level: readWrite, Handler: a.extend},
		{Method: "POST", Pattern: "/api/v1/transaction", Level: readWrite, Handler: a.transaction, Admit: true},

		{Method: "POST", Pattern: "/api/v1/configure", Level: readWrite, Handler: a.configure},
		{Method: "GET", Pattern: "/api/v1/resources/queues", Level: readOnly, Handler: a.listQueues},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue", Level: readOnly, Handler: a.describeQueue},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue/depth", Level: readOnly, Handler: a.depth},
		{Method: "GET", Pattern: "/api/v1/resources/queues/:queue/sizes", Level: readOnly, Handler: a.sizes},
		{Method: "DELETE", Pattern: "/api/v1/resources/queues/:queue", Level: admin, Handler: a.deleteQueue},
		{Method: "GET", Pattern: "/api/v1/resources/partitions", Level: readOnly, Handler: a.listPartitions},
		{Method: "GET", Pattern: "/api/v1/resources/overview", Level: readOnly, Handler: a.overview},
		{Method: "GET", Pattern: "/api/v1/resources/namespaces", Level: readOnly, Handler: a.namespaces},
		{Method: "GET", Pattern: "/api/v1/resources/tasks", Level: readOnly, Handler: a.tasks},

		{Method: "GET", Pattern: "/api/v1/consumer-groups", Level: readOnly, Handler: a.listGroups},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/lagging", Level: readOnly, Handler: a.lagging},
		{Method: "GET", Pattern: "/api/v1/consumer-groups/:group", Level: readOnly, Handler: a.describeGroup},
		{Method: "DELETE", Pattern: "/api/v1/consumer-groups/:group", Level: admin, Handler: a.deleteGroup},
		{Method: "DELETE", Pattern: "/api/v1/consumer-groups/:group/queues/:queue", Level: admin, Handler: a.deleteGroupOnQueue},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/queues/:queue/seek", Level: readWrite, Handler: a.seekQueue, Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/queues/:queue/partitions/:partition/seek", Level: readWrite, Handler: a.seekPartition, Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/subscription", Level: readWrite, Handler: a.changeSubscription, Refusal: plain},
		{Method: "POST", Pattern: "/api/v1/consumer-groups/:group/positions", Level: readWrite, Handler: a.positions},

		{Method: "GET", Pattern: "/api/v1/messages", Level: readOnly, Handler: a.listMessages},
		{Method: "GET", Pattern: "/api/v1/messages/:partitionId/:transactionId", Level: readOnly, Handler: a.describeMessage},
		{Method: "DELETE", Pattern: "/api/v1/messages/:partitionId/:transactionId", Level: readWrite, Handler: a.deleteMessage},
		{Method: "POST", Pattern: "/api/v1/messages/:partitionId/:transactionId/retry", Level: readWrite, Handler: a.retryMessage, Admit: true},
		{Method: "GET", Pattern: "/api/v1/dlq", Level: readOnly, Handler: a.listDeadLetters},
		{Method: "DELETE", Pattern: "/api/v1/dlq", Level: admin, Handler: a.purgeDeadLetters},
		{Method: "POST", Pattern: "/api/v1/dlq/:id/replay", Level: readWrite, Handler: a.replayDeadLetter, Admit: true},

		{Method: "POST", Pattern: "/api/v1/traces", Level: readWrite, Handler: a.recordTrace, Admit: true},
		{Method: "GET", Pattern: "/api/v1/traces/names", Level: readOnly, Handler: a.listTraceNames},
		{Method: "GET", Pattern: "/api/v1/traces/by-name/:traceName", Level: readOnly, Handler: a.listTraces},
		{Method: "GET", Pattern: "/api/v1/traces/:partitionId/:transactionId", Level: readOnly, Handler: a.describeTraces},

		{Method: "POST", Pattern: "/api/v1/fetch", Level: readOnly, Handler: a.fetch, Refusal: fetch},
		{Method: "POST", Pattern: "/api/v1/fetch/offsets", Level: readOnly, Handler: a.fetchOffsets, Refusal: fetch},
		{Method: "POST", Pattern: "/api/v1/partitions/changed", Level: readOnly, Handler: a.changed, Refusal: fetch},

		{Method: "GET", Pattern: "/api/v1/status", Level: readOnly, Handler: a.ranged(a.statusSummary)},
		{Method: "GET", Pattern: "/api/v1/status/queues", Level: readOnly, Handler: a.ranged(a.statusQueues)},
		{Method: "GET", Pattern: "/api/v1/status/queues/:queue", Level: readOnly, Handler: a.ranged(a.statusOfQueue)},
		{Method: "GET", Pattern: "/api/v1/status/analytics", Level: readOnly, Handler: a.ranged(a.statusAnalytics)},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-lag", Level: readOnly, Handler: a.ranged(a.queueLag)},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-ops", Level: readOnly, Handler: a.ranged(a.queueOps)},
		{Method: "GET", Pattern: "/api/v1/analytics/queue-parked-replicas", Level: readOnly, Handler: a.ranged(a.queueParked)},
		{Method: "GET", Pattern: "/api/v1/analytics/retention", Level: readOnly, Handler: a.ranged(a.retention)},
		{Method: "GET", Pattern: "/api/v1/analytics/workload", Level: readOnly, Handler: a.ranged(a.workload)},
		{Method: "GET", Pattern: "/api/v1/analytics/dlq-signatures", Level: readOnly, Handler: a.ranged(a.deadLetterSignatures)},
		{Method: "GET", Pattern: "/api/v1/analytics/partition-liveness", Level: readOnly, Handler: a.ranged(a.partitionLiveness)},
		{Method: "GET", Pattern: "/api/v1/analytics/system-metrics", Level: readOnly, Handler: a.ranged(a.systemMetrics)},
		{Method: "GET", Pattern: "/api/v1/analytics/worker-metrics", Level: readOnly, Handler: a.ranged(a.workerMetrics)},
		{Method: "POST", Pattern: "/api/v1/stats/refresh", Level: admin, Handler: a.refreshStats},
		{Method: "GET", Pattern: "/health", Level: public, Handler: a.health, Head: true, Early: true},
		// Open by default, by JWT_SKIP_PATHS: an operator may close them (operations 6.4).
		{Method: "GET", Pattern: "/metrics", Level: readOnly, Handler: a.metrics, Head: true, Early: true},
		{Method: "GET", Pattern: "/metrics/prometheus", Level: readOnly, Handler: server.MetricsPage(a.writeMetrics), Head: true, Early: true},
		{Method: "GET", Pattern: "/status", Level: readOnly, Handler: a.status, Early: true},
	})
}

// counted makes every handler count its requests.
func (a *API) counted(routes []httpfront.Route) []httpfront.Route {
	for i := range routes {
		handle := routes[i].Handler
		routes[i].Handler = func(r *httpfront.Request) {
			a.stats.Requests.Add(1)
			handle(r)
		}
	}
	return routes
}
