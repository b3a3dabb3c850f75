package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Peer is one voter of QUEEN_RAFT_PEERS. Validate guarantees an id from 1 to 4294967295 and addresses that occur once.
type Peer struct {
	ID          int64
	RaftAddress string // host:port
	HTTPAddress string // host:port
}

// String returns the peer as it stands in QUEEN_RAFT_PEERS.
func (p Peer) String() string { return fmt.Sprintf("%d=%s/%s", p.ID, p.RaftAddress, p.HTTPAddress) }

const allowedPeers = "1 to 5 voters as id=raft_host:port/http_host:port,…"

// parsePeers reads the list. What joins two rows, or a row and another setting, is Validate's to judge.
func parsePeers(text string) ([]Peer, error) {
	var peers []Peer
	for _, row := range strings.Split(text, ",") {
		idText, addresses, found := strings.Cut(row, "=")
		if !found {
			return nil, errNotAllowed
		}
		raftAddress, httpAddress, found := strings.Cut(addresses, "/")
		if !found {
			return nil, errNotAllowed
		}
		id, err := strconv.ParseInt(idText, 10, 64)
		if err != nil {
			return nil, errNotAllowed
		}
		for _, address := range []string{raftAddress, httpAddress} {
			if address != "" && !isHostPort(address) {
				return nil, errNotAllowed
			}
		}
		peers = append(peers, Peer{ID: id, RaftAddress: raftAddress, HTTPAddress: httpAddress})
	}
	return peers, nil
}

// isHostPort accepts host:port with a host that is not empty and a port from 1 to 65535.
func isHostPort(address string) bool {
	host, portText, err := net.SplitHostPort(address)
	if err != nil || !isHost(host) {
		return false
	}
	port, err := parseWhole(portText)
	return err == nil && port >= 1 && port <= highestPort
}

// isHost accepts an IP address or a host name; never a port, a path or a space.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "" || len(host) > maxHostBytes {
		return false
	}
	for i := range len(host) {
		c := host[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

const (
	highestPort = 65535
	// maxHostBytes is the longest name that DNS carries.
	maxHostBytes = 253
)

// isLoopback tells whether a host:port stays inside this machine. A name other than localhost is not looked up: what it
// means can change after the check.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// ownRaftListen is the default of QUEEN_RAFT_LISTEN: every interface, at the port of this node's own row (cluster 1.3).
func ownRaftListen(c *Config) string {
	self, found := c.Self()
	if !found {
		return ""
	}
	_, port, err := net.SplitHostPort(self.RaftAddress)
	if err != nil {
		return ""
	}
	return net.JoinHostPort("0.0.0.0", port)
}

// allowedNodeID is written out because the word stands beside the range.
const allowedNodeID = "a whole number from 1 to 4294967295, or ordinal with a HOSTNAME that ends in a number"

// parseNodeID reads QUEEN_RAFT_NODE_ID; ordinal is the trailing number of the host name plus 1, as a StatefulSet counts
// its pods from 0.
func parseNodeID(text, hostname string) (uint32, error) {
	id, err := parseWhole(text)
	if text == "ordinal" {
		id, err = parseWhole(hostname[len(strings.TrimRight(hostname, "0123456789")):])
		id++
	}
	if err != nil || id < 1 || id > highestNodeID {
		return 0, errNotAllowed
	}
	return uint32(id), nil
}

const highestNodeID = 4294967295
