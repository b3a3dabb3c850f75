package actors

import (
	"fmt"
	"slices"

	"queen/raftlog/command"
)

// generatedNodes are the nodes whose requests the log has. They learn late of some outcomes, send requests again, answered ones
// too, and give up some that come all the same. Now and then one starts anew, with another origin.
type generatedNodes struct {
	nodes []*generatedNode
	// origins counts the origins so far.
	origins uint64
	// sent are the last requests, late those that have been given up and are still on their way.
	sent, late []command.Item
}

// generatedNode is one start of a node.
type generatedNode struct {
	origin, next uint64
	// open are the unanswered requests, ascending; true for one whose outcome never reaches the node.
	open []uint64
	lost map[uint64]bool
}

const (
	generatedOrigins = 3
	generatedSent    = 300
)

// add appends a request to an entry: a new one, or one that has been sent before.
func (g *generator) add(e *command.Entry) {
	n := &g.nodes
	item := command.Item{}
	switch {
	case g.oneIn(12) && len(n.sent) > 0:
		item = n.sent[len(n.sent)-1-g.random.IntN(1+g.random.IntN(len(n.sent)))]
		g.kinds["again"]++
	case g.oneIn(40) && len(n.late) > 0:
		item, n.late = n.late[0], n.late[1:]
		g.kinds["late"]++
	default:
		node := n.node(g)
		item = node.request(g, g.command())
		g.kinds[fmt.Sprintf("%T", item.Command)]++
		if g.oneIn(60) {
			n.late = append(n.late, item)
			node.answer(item.Request.Sequence)
			return
		}
		n.sent = append(n.sent, item)
		if len(n.sent) > generatedSent {
			n.sent = n.sent[1:]
		}
	}
	e.Items = append(e.Items, item)
}

// node picks the sender of a request.
func (n *generatedNodes) node(g *generator) *generatedNode {
	restart := g.oneIn(500)
	if len(n.nodes) < generatedOrigins || restart {
		n.origins++
		if restart && len(n.nodes) > 0 {
			n.nodes = n.nodes[1:]
		}
		n.nodes = append(n.nodes, &generatedNode{origin: testOrigin + n.origins<<40, next: 1, lost: map[uint64]bool{}})
	}
	return pick(g, n.nodes)
}

// of finds a node by its origin; nil when it is gone.
func (n *generatedNodes) of(origin uint64) *generatedNode {
	for _, node := range n.nodes {
		if node.origin == origin {
			return node
		}
	}
	return nil
}

// request makes a request of a command; some have no id, as the commands that the log itself makes.
func (n *generatedNode) request(g *generator, c command.Command) command.Item {
	if _, idle := c.(command.Tick); idle && g.oneIn(2) {
		return command.Item{Command: c}
	}
	item := command.Item{Request: command.RequestID{Origin: n.origin, Sequence: n.next}, Command: c}
	n.open = append(n.open, n.next)
	n.lost[n.next] = g.oneIn(800)
	n.next++
	item.AnsweredBelow = n.open[0]
	return item
}

func (n *generatedNode) answer(sequence uint64) {
	if at, open := slices.BinarySearch(n.open, sequence); open {
		n.open = slices.Delete(n.open, at, at+1)
	}
}

// learn tells the nodes outcomes of an entry, and some that they have not learnt of before.
func (n *generatedNodes) learn(g *generator, e *command.Entry) {
	for i := range e.Items {
		id := e.Items[i].Request
		if node := n.of(id.Origin); node != nil && !node.lost[id.Sequence] && !g.oneIn(12) {
			node.answer(id.Sequence)
		}
	}
	for _, node := range n.nodes {
		for _, sequence := range slices.Clone(node.open) {
			if !node.lost[sequence] && g.oneIn(12) {
				node.answer(sequence)
			}
		}
	}
}
