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
	)
	return []httpfront.Route{
		{Method: "POST", Pattern: "/api/v1/push", Level: writeOnly, Handler: a.push, Admit: true},
		{Method: "GET", Pattern: "/api/v1/pop", Level: readWrite, Handler: a.discover, Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue", Level: readWrite, Handler: a.popQueue, Refusal: pop},
		{Method: "GET", Pattern: "/api/v1/pop/queue/:queue/partition/:partition", Level: readWrite, Handler: a.popPartition, Refusal: pop},
		{Method: "POST", Pattern: "/api/v1/ack", Level: readWrite, Handler: a.ack},
		{Method: "POST", Pattern: "/api/v1/ack/batch", Level: readWrite, Handler: a.ack},
		{Method: "POST", Pattern: "/api/v1/lease/:leaseId/extend", Level: readWrite, Handler: a.extend},
		{Method: "POST", Pattern: "/api/v1/transaction", Level: readWrite, Handler: a.transaction, Admit: true},
		{Method: "POST", Pattern: "/api/v1/configure", Level: readWrite, Handler: a.configure},
		{Method: "DELETE", Pattern: "/api/v1/resources/queues/:queue", Level: admin, Handler: a.deleteQueue},

		{Method: "GET", Pattern: "/health", Level: public, Handler: a.health, Head: true, Early: true},
		{Method: "GET", Pattern: "/metrics/prometheus", Level: public, Handler: server.MetricsPage(), Head: true, Early: true},
		{Method: "GET", Pattern: "/status", Level: readOnly, Handler: a.status, Early: true},
	}
}
