package workload

import (
	"math/rand/v2"

	"queen/chaos/contract/harness"
	"queen/chaos/ledger"
)

// strayOneIn is how many calls there are to one that leaves a node at which nothing has failed.
const strayOneIn = 4

// route is the way of one worker to the nodes: it stays with one until a call fails there, as clients do.
type route struct {
	clients []*harness.Client
	at      int
}

// route starts a worker at one of the nodes, so that workers with numbers in a row spread over them.
func (l *Load) route(worker int) *route { return &route{clients: l.clients, at: worker} }

func (r *route) client() *harness.Client { return r.clients[r.at%len(r.clients)] }

// learn moves on to the next node unless a call was answered.
func (r *route) learn(outcome ledger.Outcome) {
	if outcome != ledger.Done {
		r.at++
	}
}

// stray moves on now and then without a reason: a lease is settled through another node than it was given by.
func (r *route) stray(random *rand.Rand) {
	if random.IntN(strayOneIn) == 0 {
		r.at++
	}
}
