package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"queen/actors"
	"queen/cmd/queen/config"
	"queen/cmd/queen/version"
	"queen/httpfront"
	"queen/raftlog"
	"queen/raftlog/formation"
	"queen/raftlog/identity"
	"queen/raftlog/membership"
	"queen/raftlog/peer"
)

// raftPort is this node towards the others: who it is, where they are, and what it thinks of them (cluster 2).
type raftPort struct {
	config   *config.Config
	identity *identity.Store
	// network and admin are nil in a node without QUEEN_RAFT_PEERS, which opens no raft port.
	network *peer.Network
	admin   *peer.Router
	outcome formation.Outcome
	log     atomic.Pointer[raftlog.Node]
	// joined is set once the identity names a cluster.
	joined atomic.Bool
	book   addressBook
	// membership looks after the membership, and broker has the members table; nil until the log is open.
	membership atomic.Pointer[membership.Service]
	broker     atomic.Pointer[actors.Broker]
	met        acquaintances
	// guard keeps this node out while others do not accept it; nil without a raft port.
	guard *guard
	// returning is set while this node comes back with an empty directory: Identity.Returning.
	returning atomic.Bool
	// removed tells that this node is no member any more, as it was last looked at.
	removed atomic.Bool
	// reconsidered is the membership by which connections were last looked at.
	reconsidered atomic.Uint64
	// closing ends with close.
	closing context.Context
	cancel  context.CancelFunc
	stopTLS context.CancelFunc
}

// addressBook holds the HTTP addresses that other nodes have told in their handshakes.
type addressBook struct {
	mu   sync.Mutex
	http map[uint64]string
}

// maxAddresses bounds an address book: every node that knows the token writes into it.
const maxAddresses = 1024

func (b *addressBook) note(remote *peer.Hello) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.http == nil {
		b.http = map[uint64]string{}
	}
	if _, known := b.http[remote.NodeID]; remote.HTTP != "" && (known || len(b.http) < maxAddresses) {
		b.http[remote.NodeID] = remote.HTTP
	}
}

// httpAddress is where clients reach another node; empty when nobody has told.
func (p *raftPort) httpAddress(id uint64) string {
	p.book.mu.Lock()
	told := p.book.http[id]
	p.book.mu.Unlock()
	if told != "" {
		return told
	}
	for _, row := range p.config.RaftPeers {
		if uint64(row.ID) == id {
			return row.HTTPAddress
		}
	}
	return ""
}

// inCluster tells whether this node belongs to a cluster, at once.
func (p *raftPort) inCluster() bool {
	if !p.joined.Load() && p.identity.Current().ClusterID != "" {
		p.joined.Store(true)
	}
	return p.joined.Load()
}

// openIdentity reads or mints who this node is.
func openIdentity(c *config.Config) (*raftPort, error) {
	store, err := identity.Open(identity.Options{
		Dir: c.RaftDirectory, NodeID: uint64(c.RaftNodeID), Groups: c.RaftGroups, Build: version.Get().Version,
		NowMs: func() int64 { return time.Now().UnixMilli() }, Faults: faultPoints(c.TestFaults),
	})
	if err != nil {
		return nil, err
	}
	p := &raftPort{config: c, identity: store}
	p.returning.Store(store.Current().Returning != "")
	p.closing, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// open opens the raft port.
func (p *raftPort) open(log zerolog.Logger, refused func(node uint64, reason string)) error {
	if len(p.config.RaftPeers) == 0 {
		return nil
	}
	options := peer.Options{
		Listen: p.config.RaftListen, Token: []byte(p.config.RaftToken), PreviousToken: []byte(p.config.RaftTokenPrevious),
		Hello: p.hello, Addresses: p.addresses, Judge: p.judge, Clock: raftlog.SystemClock{}, Logger: log,
		Met: p.meet, Reached: p.reached, Refused: refused,
	}
	p.guard = newGuard(p, log)
	var err error
	if options.ServerTLS, options.ClientTLS, err = p.certificates(log); err != nil {
		return err
	}
	if p.network, err = peer.Listen(options); err != nil {
		return err
	}
	p.admin = peer.NewRouter(p.network, peer.Admin)
	p.answerMembership()
	return nil
}

// certificates loads what the raft port shows and trusts; nil for a port in clear.
func (p *raftPort) certificates(log zerolog.Logger) (server, client *tls.Config, err error) {
	c := p.config
	if c.RaftTLSCertFile == "" {
		return nil, nil, nil
	}
	certificate, err := httpfront.LoadCertificate(c.RaftTLSCertFile, c.RaftTLSKeyFile, log)
	if err != nil {
		return nil, nil, fmt.Errorf("load certificate of the raft port: %w", err)
	}
	var roots *x509.CertPool
	if c.RaftTLSCAFile != "" {
		pem, err := os.ReadFile(c.RaftTLSCAFile)
		if err != nil {
			return nil, nil, fmt.Errorf("read QUEEN_RAFT_TLS_CA: %w", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, nil, fmt.Errorf("QUEEN_RAFT_TLS_CA=%q: no certificate in it", c.RaftTLSCAFile)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stopTLS = cancel
	go certificate.Watch(ctx)
	server, client = peer.TLS(certificate.Current, roots)
	return server, client, nil
}

// form brings the node to its cluster; for a first start of several that waits for all of them.
func (p *raftPort) form(ctx context.Context, log zerolog.Logger) (err error) {
	options := formation.Options{
		Self: uint64(p.config.RaftNodeID), Join: p.config.RaftJoin, Identity: p.identity, Admin: p.admin,
		Interval: formation.DefaultInterval, Clock: raftlog.SystemClock{}, Logger: log, Faults: faultPoints(p.config.TestFaults),
	}
	for _, row := range p.config.RaftPeers {
		options.Peers = append(options.Peers, formation.Peer{ID: uint64(row.ID), Raft: row.RaftAddress, HTTP: row.HTTPAddress})
	}
	p.outcome, err = formation.Run(ctx, options)
	return err
}

// apply fills in what the log needs to know of the others.
func (p *raftPort) apply(o *raftlog.Options) {
	if p.network == nil {
		return
	}
	self, _ := p.config.Self()
	o.Network, o.Address, o.Guarded = groupPort{p.network, p.guard}, self.RaftAddress, p.guard.shut.Load
	o.Outside = func() bool { return p.refused() || p.removed.Load() }
	o.Join = p.outcome.Kind == formation.Join || p.outcome.Record == nil
	if p.outcome.Record != nil {
		for _, member := range p.outcome.Record.Members {
			address := member.Raft
			if address == "" { // it was formed without a raft port, and has one now
				address = self.RaftAddress
			}
			o.Voters = append(o.Voters, raftlog.Voter{ID: member.NodeID, Address: address})
		}
	}
}

// began records that the log exists: from now on a missing one is damage.
func (p *raftPort) began(log *raftlog.Node) error {
	p.log.Store(log)
	if p.guard != nil {
		p.guard.logOpened()
	}
	if p.identity.Current().Began {
		return nil
	}
	return p.identity.Update(func(i *identity.Identity) { i.Began = true })
}

// hello is what this node says of itself in a handshake.
func (p *raftPort) hello() peer.Hello {
	self, _ := p.config.Self()
	h := peer.Hello{
		Kinds: version.Format, Groups: p.config.RaftGroups,
		Raft: self.RaftAddress, HTTP: self.HTTPAddress, Version: version.Get().Version, Settings: sharedSettings(p.config),
	}
	h.Identify(p.identity.Current())
	state := p.state()
	h.ClusterVersion = state.Format
	if row, known := state.Member(h.NodeID); known && row.Incarnation == h.Incarnation {
		h.AddedIndex = max(h.AddedIndex, row.AddedIndex)
	}
	if log := p.log.Load(); log != nil {
		h.CurrentTerm, h.LastLogIndex, h.LastLogTerm = log.Position()
	}
	return h
}

// addresses returns where a node may be: as the membership says, then as QUEEN_RAFT_PEERS does (cluster 3.3).
func (p *raftPort) addresses(id uint64) []string {
	var found []string
	if log := p.log.Load(); log != nil {
		found = append(found, log.MemberAddress(id))
		for _, member := range log.Members() { // as the leader says, who may know more
			if member.ID == id {
				found = append(found, member.Address)
			}
		}
	}
	if row, known := p.state().Member(id); known {
		found = append(found, row.Raft) // also of one that is being removed, and hears of that
	}
	for _, row := range p.config.RaftPeers {
		if uint64(row.ID) == id {
			found = append(found, row.RaftAddress)
		}
	}
	return distinct(found)
}

// distinct leaves out what is empty or repeated.
func distinct(addresses []string) []string {
	var kept []string
	for _, address := range addresses {
		if address != "" && !slices.Contains(kept, address) {
			kept = append(kept, address)
		}
	}
	return kept
}

func (p *raftPort) judge(remote peer.Hello, connected []string) peer.Verdict {
	self, view := p.hello(), p.view()
	view.Connected, view.Witnessed = connected, p.witnessed(remote.NodeID)
	return peer.Judge(&self, &remote, view)
}

// view is what the members table says about other nodes.
func (p *raftPort) view() *peer.View {
	state := p.state()
	view := &peer.View{ClusterVersion: state.Format, AppliedIndex: state.Index}
	for _, row := range state.Members {
		view.Members = append(view.Members, peer.Member{
			NodeID: row.NodeID, Incarnation: row.Incarnation, BootNonce: row.BootNonce, AddedIndex: row.AddedIndex})
	}
	if state.Plan != nil {
		for _, step := range state.Plan.Steps {
			view.Planned = append(view.Planned, step.Node)
		}
	}
	return view
}

// reconsider ends the connections of nodes that are no members any more. What they said of their logs when they connected is old by
// now, so nothing else is judged.
func (p *raftPort) reconsider() {
	if p.network == nil {
		return
	}
	self, view := p.hello(), p.view()
	p.network.Reconsider(func(remote *peer.Hello) peer.Verdict {
		if verdict := peer.Judge(&self, remote, view); verdict == peer.Unknown || verdict == peer.Replaced {
			return verdict
		}
		return peer.OK
	})
}

func (p *raftPort) close() error {
	p.cancel()
	if p.stopTLS != nil {
		p.stopTLS()
	}
	if p.network == nil {
		return nil
	}
	return p.network.Close()
}

// sharedNames are the settings that change results and are compared in the handshake (cluster 1.1.10).
var sharedNames = []string{"QUEEN_RAFT_GROUPS", "QUEEN_RAFT_REQUEST_ID_WINDOW_S", "QUEEN_RAFT_TXN_WINDOW_MIN_S",
	"QUEEN_RAFT_MAX_CLOCK_SKEW_MS", "QUEEN_TENANT_GROUPS", "QUEEN_RAFT_ENTRY_MAX_BYTES", "QUEEN_KV_MAX_VALUE_BYTES",
	"QUEEN_KV_MAX_READ_BYTES"}

func sharedSettings(c *config.Config) map[string]string {
	values := map[string]string{}
	for _, setting := range c.Settings() {
		for _, name := range sharedNames {
			if setting.Name == name {
				values[name] = setting.Value
			}
		}
	}
	return values
}

// groupPort shows the raft port to a group in the words of its log.
type groupPort struct {
	network *peer.Network
	guard   *guard
}

// Dial implements raftlog.Network.
func (g groupPort) Dial(ctx context.Context, node uint64, purpose raftlog.Purpose) (net.Conn, error) {
	conn, err := g.network.Dial(ctx, node, peer.Purpose(purpose), 0)
	if err != nil {
		return nil, err // not a nil *peer.Conn in an interface
	}
	return conn, nil
}

// Handle implements raftlog.Network.
func (g groupPort) Handle(purpose raftlog.Purpose, serve func(from uint64, conn net.Conn)) {
	if serve == nil {
		if purpose == raftlog.PurposeRaft {
			g.guard.whenOpen(nil)
		}
		g.network.Handle(peer.Purpose(purpose), nil)
		return
	}
	handle := func() {
		g.network.Handle(peer.Purpose(purpose), func(conn *peer.Conn) { serve(conn.Remote.NodeID, conn) })
	}
	if purpose == raftlog.PurposeRaft {
		// Until then nobody is let in. A leader that gets errors for its appends waits longer each time; one that reaches nobody comes at once.
		g.guard.whenOpen(handle)
		return
	}
	handle()
}
