package walkthrough

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
)

// standinVariable turns this test binary into a stand-in for the broker, and says how it behaves: ready, settling (never
// ready), refusing (does not start) or stubborn (does not stop).
const standinVariable = "WALKTHROUGH_STANDIN"

// standin is called as `queen serve`. It answers /health, shows its settings under /settings, and stops on SIGTERM.
func standin() int {
	behaviour := os.Getenv(standinVariable)
	fmt.Printf("standin: starting as %s %s\n", os.Getenv("QUEEN_SERVER_ID"), behaviour)
	if behaviour == "refusing" {
		fmt.Println("FATAL: QUEEN_RAFT_PEERS: not today")
		return 1
	}
	if len(os.Args) != 2 || os.Args[1] != "serve" {
		fmt.Println("FATAL: want the command serve, not", os.Args[1:])
		return 2
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("QUEEN_BIND_ADDR"), os.Getenv("PORT")))
	if err != nil {
		fmt.Println("FATAL:", err)
		return 1
	}
	server := &http.Server{Handler: standinRoutes(behaviour)}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	for {
		select {
		case <-signals:
			if behaviour == "stubborn" {
				fmt.Println("standin: I stay")
				continue
			}
			fmt.Println("standin: stopped in order")
			_ = server.Close() // the process ends
			return 0
		case err := <-served:
			if !errors.Is(err, http.ErrServerClosed) {
				fmt.Println("FATAL:", err)
			}
			return 1
		}
	}
}

func standinRoutes(behaviour string) http.Handler {
	var asked atomic.Int64
	routes := http.NewServeMux()
	routes.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		// The second look finds it ready, as the first one often finds a real node.
		status := "healthy"
		if asked.Add(1) == 1 || behaviour == "settling" {
			status = "settling"
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprintf(w, `{"status":%q,"engine":"raft","version":"1.0.0","reasons":[],"raft":{"role":"follower","leader":true,"leaderId":1,"term":7,"applied":41,"commit":42,"lag":0}}`, status)
	})
	routes.HandleFunc("GET /settings", func(w http.ResponseWriter, _ *http.Request) {
		for _, pair := range os.Environ() {
			if strings.HasPrefix(pair, "QUEEN_") || strings.HasPrefix(pair, "LOG_LEVEL=") {
				fmt.Fprintln(w, pair)
			}
		}
	})
	return routes
}
