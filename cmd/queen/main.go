// Command queen is the broker, its administration and its tools in one binary (operations 9.2).
package main

import (
	"context"
	"os"

	"github.com/mattn/go-isatty"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], process{
		environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		asks:    isatty.IsTerminal(os.Stdin.Fd()) && isatty.IsTerminal(os.Stderr.Fd()),
		colours: isatty.IsTerminal(os.Stdout.Fd()),
	}))
}
