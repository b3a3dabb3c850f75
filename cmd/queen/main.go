// Command queen is the broker, its administration and its tools in one binary (operations 9.2).
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], process{environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr}))
}
