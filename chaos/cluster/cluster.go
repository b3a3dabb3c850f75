package cluster

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/chaos/contract/harness"
)

// Token is the shared secret of the nodes unless the environment names another.
const Token = "the raft token of the chaos tests"

// Options says what a cluster is made of. Binary, Dir and Nodes are required.
type Options struct {
	Binary string
	Dir    string // an existing directory; each node gets one of its own in it
	Nodes  int    // ids 1 to Nodes form the cluster
	Spares int    // further nodes, with the ids behind, which wait to be added when they are launched
	Env    map[string]string
	EnvOf  map[uint64]map[string]string // on top of Env, by id
	// Flushes puts every flush of the nodes under the control of Node.Flushes. The running binary must call LaunchIfAsked.
	Flushes bool
}

// Cluster is a set of nodes and the network between them. Its methods are called from one goroutine at a time, apart from
// those that only ask.
type Cluster struct {
	Network *Network
	nodes   []*Node // by rising id
	founded int
	gone    bool // Close was called
}

// Prepare chooses all addresses and starts nothing.
func Prepare(options Options) (*Cluster, error) {
	c := &Cluster{founded: options.Nodes}
	targets := map[uint64]string{}
	for i := range options.Nodes + options.Spares {
		id := uint64(i + 1)
		port, err := harness.FreePort()
		if err != nil {
			return nil, err
		}
		targets[id] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		node, err := newNode(id, options, targets[id])
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, node)
	}
	var err error
	if c.Network, err = NewNetwork(targets); err != nil {
		return nil, err
	}
	for _, node := range c.nodes {
		for name, value := range map[string]string{
			"QUEEN_RAFT_NODE_ID": strconv.FormatUint(node.ID, 10),
			"QUEEN_RAFT_PEERS":   c.peers(node),
			"QUEEN_RAFT_LISTEN":  node.listen,
			"QUEEN_RAFT_TOKEN":   Token,
			"QUEEN_SERVER_ID":    fmt.Sprintf("node-%d", node.ID),
		} {
			if node.broker.Env(name) == "" && len(c.nodes) > 1 { // a lone node opens no raft port
				node.SetEnv(name, value)
			}
		}
		if int(node.ID) > options.Nodes {
			node.SetEnv("QUEEN_RAFT_JOIN", "true")
		}
	}
	return c, nil
}

// peers is the list that a node is started with: the founders name each other, a spare names everybody.
func (c *Cluster) peers(of *Node) string {
	var rows []string
	for _, node := range c.nodes {
		if int(of.ID) > c.founded || int(node.ID) <= c.founded {
			rows = append(rows, fmt.Sprintf("%d=%s/%s", node.ID, c.Network.Address(node.ID), node.broker.Address()))
		}
	}
	return strings.Join(rows, ",")
}

// Move gives a node that does not run another raft address, which it is told at its next start, and nobody else.
func (c *Cluster) Move(node *Node) error {
	if err := c.Network.Move(node.ID, node.listen); err != nil {
		return err
	}
	node.SetEnv("QUEEN_RAFT_PEERS", c.peers(node))
	return nil
}

// formedWithin bounds the first start of a cluster.
const formedWithin = 30 * time.Second

// Start prepares a cluster, launches its founders and returns once all of them are ready. On an error nothing is left.
func Start(options Options) (*Cluster, error) {
	c, err := Prepare(options)
	if err != nil {
		return nil, err
	}
	for _, node := range c.Founders() {
		if err := node.Launch(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	if err := c.AwaitHealthy(formedWithin, c.Founders()...); err != nil {
		return nil, errors.Join(err, c.LogTails(), c.Close())
	}
	return c, nil
}

// Close kills what runs and takes the network away. It may be called again. The error says what went wrong in the harness
// itself.
func (c *Cluster) Close() error {
	if c.gone {
		return nil
	}
	c.gone = true
	var all []error
	for _, node := range c.nodes {
		node.Kill()
		node.client.Close()
		if node.flushes != nil {
			all = append(all, node.flushes.Close())
		}
	}
	if c.Network != nil {
		c.Network.Close()
	}
	return errors.Join(all...)
}

// Node returns a node by its id.
func (c *Cluster) Node(id uint64) *Node { return c.nodes[id-1] }

// Nodes lists all nodes, spares included.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Founders lists the nodes that form the cluster.
func (c *Cluster) Founders() []*Node { return c.nodes[:c.founded] }

// Running lists the nodes whose processes are there and not paused.
func (c *Cluster) Running() []*Node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *Node) bool { return !n.Running() })
}

// Others lists the running nodes but one.
func (c *Cluster) Others(id uint64) []*Node {
	return slices.DeleteFunc(c.Running(), func(n *Node) bool { return n.ID == id })
}

// Clients returns a client of each of the nodes.
func Clients(nodes []*Node) []*harness.Client {
	clients := make([]*harness.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = node.Client()
	}
	return clients
}

// errNoLeader is the state of a cluster in which nobody leads, as far as it can be asked.
var errNoLeader = errors.New("no node says that it leads")

// Leader asks the given nodes, all running ones when none is given, and returns the one that leads in the highest term.
func (c *Cluster) Leader(among ...*Node) (*Node, error) {
	if len(among) == 0 {
		among = c.Running()
	}
	var (
		leader *Node
		term   uint64
	)
	for _, node := range among {
		health, err := node.Health()
		if err == nil && health.Leads() && health.Raft.Term > term {
			leader, term = node, health.Raft.Term
		}
	}
	if leader == nil {
		return nil, errNoLeader
	}
	return leader, nil
}

// AwaitLeader waits until one of the nodes leads.
func (c *Cluster) AwaitLeader(within time.Duration, among ...*Node) (*Node, error) {
	var leader *Node
	err := Eventually(within, "a leader", func() (err error) {
		leader, err = c.Leader(among...)
		return err
	})
	return leader, err
}

// AwaitHealthy waits until each of the nodes, all running ones when none is given, has answered 200.
func (c *Cluster) AwaitHealthy(within time.Duration, nodes ...*Node) error {
	if len(nodes) == 0 {
		nodes = c.Running()
	}
	return awaitReady(within, nodes)
}

func awaitReady(within time.Duration, nodes []*Node) error {
	deadline := time.Now().Add(within)
	for _, node := range nodes {
		err := Eventually(time.Until(deadline), fmt.Sprintf("node %d ready", node.ID), func() error {
			health, err := node.Health()
			switch {
			case node.broker.Exited():
				return fmt.Errorf("node %d has exited: %w", node.ID, errFinal)
			case err == nil && !health.Healthy():
				return errors.New(health.String())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AwaitLevel waits until all of the nodes have applied the same index, which no longer moves.
func (c *Cluster) AwaitLevel(within time.Duration, nodes ...*Node) (uint64, error) {
	var level uint64
	err := Eventually(within, "the nodes level", func() error {
		applied, err := appliedOf(nodes)
		if err != nil {
			return err
		}
		if slices.Min(applied) != slices.Max(applied) {
			return fmt.Errorf("applied %v", applied)
		}
		level = applied[0]
		return nil
	})
	return level, err
}

func appliedOf(nodes []*Node) ([]uint64, error) {
	applied := make([]uint64, len(nodes))
	for i, node := range nodes {
		health, err := node.Health()
		if err != nil {
			return nil, err
		}
		applied[i] = health.Raft.Applied
	}
	return applied, nil
}
