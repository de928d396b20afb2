// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows Berth's main job on this machine: a real control plane with
// simulated nodes, three schedulers beside each other, and every pod placed by the one
// that its schedulerName names. It ends with a verdict that pkg/oracle computes from
// what the API server says.
//
// It runs the binaries of "make build" from the root of a checkout. "make demo" builds
// and runs it.
//
// Exit codes: 0 every pod is where its scheduler's rules allow, 1 one is not or
// something failed, 2 usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/berth-scheduler/berth/pkg/bench/datasets"
)

// Exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() { os.Exit(run(os.Args[1:])) }

// run is main with its exit code.
func run(args []string) int {
	opts, err := parseOptions(args, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitUsage
	}
	// Whatever ends the demo, it cleans up first: a closed terminal too, unless it
	// was told to survive that (nohup), and a reader of its output that went away.
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// After the first signal, a second one ends this process at once.
	context.AfterFunc(ctx, stop)

	if opts.stop {
		err = stopKept(ctx, opts.dir, os.Stdout)
	} else {
		err = newDemo(opts, os.Stdout).run(ctx)
	}
	switch {
	case errors.Is(err, errViolations): // the verdict has said which
		return exitFailed
	case err != nil:
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return exitFailed
	}
	return exitOK
}

const (
	// sampleShop is the demo's own shop.
	sampleShop = "hack/demo/sample/shop.yaml"
	// keptDir is the default of --dir.
	keptDir = "out/demo"
)

// options say what to demonstrate.
type options struct {
	// shop is the file with the Deployments to split over the schedulers.
	shop string
	// dir is the folder of a demo that is left running, absolute.
	dir string
	// keep leaves everything running at the end, breakRules injects pods where their
	// schedulers' rules do not allow them, and stop ends what an earlier run with keep
	// left running, and does nothing else.
	keep, breakRules, stop bool
}

// parseOptions reads flags and environment. make passes KEEP and DEMO_BREAK through as
// they are, empty where they were not given.
func parseOptions(args []string, usage io.Writer) (*options, error) {
	opts := &options{}
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.BoolVar(&opts.keep, "keep", false, "leave cluster and schedulers running (environment: KEEP=1)")
	flags.BoolVar(&opts.breakRules, "break", false, "inject violations, which the verdict must find (environment: DEMO_BREAK=1)")
	flags.BoolVar(&opts.stop, "stop", false, "stop a demo that an earlier run with --keep left running")
	flags.StringVar(&opts.dir, "dir", keptDir, "folder of a demo that is left running")
	flags.StringVar(&opts.shop, "shop", "", fmt.Sprintf("file of Deployments and Services to place (default: $BERTH_DATA/%s if it exists, else %s)", datasets.OnlineBoutique, sampleShop))
	for name, variable := range map[string]string{"keep": "KEEP", "break": "DEMO_BREAK"} {
		if value := os.Getenv(variable); value != "" {
			if err := flags.Set(name, value); err != nil {
				return nil, fmt.Errorf("environment variable %s=%q: must be 1 or 0", variable, value)
			}
		}
	}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintln(usage, "Usage: demo [flags], from the root of a checkout, after \"make build\"")
		flags.SetOutput(usage)
		flags.PrintDefaults()
		return nil, err
	case err != nil:
		return nil, err
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q: all options are flags", flags.Arg(0))
	case !isFile(sampleShop):
		return nil, errors.New("the working directory is not the root of a checkout of Berth: change to one and try again")
	}
	if opts.dir, err = filepath.Abs(opts.dir); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if opts.shop == "" {
		opts.shop = sampleShop
		if data := datasets.Path(datasets.OnlineBoutique); isFile(data) {
			opts.shop = data
		}
	}
	if !isFile(opts.shop) {
		return nil, fmt.Errorf("--shop %s: there is no such file", opts.shop)
	}
	return opts, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
