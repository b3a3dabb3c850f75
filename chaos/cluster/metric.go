package cluster

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Metric adds up the series of a family whose labels hold a text.
func (n *Node) Metric(family, labels string) (float64, error) {
	reply := n.Client().Get("/metrics/prometheus")
	if reply.Err != nil || reply.Status != http.StatusOK {
		return 0, fmt.Errorf("metrics of node %d: %v", n.ID, reply)
	}
	sum, err := sumOf(string(reply.Body), family, labels)
	if err != nil {
		return 0, fmt.Errorf("metrics of node %d: %w", n.ID, err)
	}
	return sum, nil
}

func sumOf(exposition, family, labels string) (float64, error) {
	sum := 0.0
	for line := range strings.Lines(exposition) {
		series, value, found := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ := strings.Cut(series, "{")
		if !found || name != family || !strings.Contains(series, labels) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", line, err)
		}
		sum += number
	}
	return sum, nil
}
