package cluster

import (
	"sync"
	"time"
)

// lookEvery is the pause between two looks of a watch at a node.
const lookEvery = 20 * time.Millisecond

// Watch looks at /health of every node all the time. Stop ends it.
type Watch struct {
	now     func() time.Duration
	stopped chan struct{}
	running sync.WaitGroup

	mutex sync.Mutex
	looks map[uint64][]Look
}

// Look is what one node answered at one instant. Status 0 is no answer.
type Look struct {
	At     time.Duration // when it was asked
	Health Health
}

// StartWatch begins to look at the nodes; the clock is that of the history.
func StartWatch(nodes []*Node, now func() time.Duration) *Watch {
	w := &Watch{now: now, stopped: make(chan struct{}), looks: map[uint64][]Look{}}
	for _, node := range nodes {
		w.running.Go(func() { w.look(node) })
	}
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() {
	close(w.stopped)
	w.running.Wait()
}

func (w *Watch) look(node *Node) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-w.stopped:
			return
		}
		at := w.now()
		health, err := node.Health()
		if err != nil {
			health = Health{}
		}
		w.mutex.Lock()
		w.looks[node.ID] = append(w.looks[node.ID], Look{at, health})
		w.mutex.Unlock()
	}
}

// Looks returns what a node answered from an instant on.
func (w *Watch) Looks(id uint64, from time.Duration) []Look {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for i, look := range w.looks[id] {
		if look.At >= from {
			return append([]Look(nil), w.looks[id][i:]...)
		}
	}
	return nil
}

// Unready counts the looks between two instants at which a node did not answer 200, and gives the first of them.
func (w *Watch) Unready(id uint64, from, to time.Duration) (count int, first Look) {
	for _, look := range w.Looks(id, from) {
		if look.At > to {
			break
		}
		if !look.Health.Healthy() {
			if count == 0 {
				first = look
			}
			count++
		}
	}
	return count, first
}

// FirstWith gives how long after an instant a node first answered with the status.
func (w *Watch) FirstWith(id uint64, status int, from time.Duration) (time.Duration, bool) {
	for _, look := range w.Looks(id, from) {
		if look.Health.Status == status {
			return look.At - from, true
		}
	}
	return 0, false
}
