// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

const (
	// sampleShop is the value of --shop that stands for the demo's own sample.
	sampleShop = "sample"
	// sharedShop is where Online Boutique's manifests lie if a folder with shared
	// data stands beside the checkout.
	sharedShop = "../shared/data/online-boutique/kubernetes-manifests.yaml"
	// defaultKeptDir is the default of --dir.
	defaultKeptDir = "out/demo"
)

// options say what to demonstrate.
type options struct {
	// root is the checkout, absolute.
	root string
	// shop is the file with the Deployments to split over the schedulers, absolute.
	shop string
	// keep leaves everything running at the end.
	keep bool
	// keptDir is the folder of a demo that is left running, absolute.
	keptDir string
	// breakRule plants pods where their schedulers' rules do not allow them.
	breakRule bool
	// stop ends what an earlier run with keep left running, and does nothing else.
	stop bool
}

// parseOptions reads flags and environment. make passes KEEP and DEMO_BREAK
// through as they are, empty where they were not given.
func parseOptions(args []string, getenv func(string) string, usage io.Writer) (*options, error) {
	opts := &options{}
	var errs []error
	fromEnv := func(name string) bool {
		value := getenv(name)
		if value == "" {
			return false
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s=%q: must be 1 or 0", name, value))
		}
		return on
	}
	keep, breakRule := fromEnv("KEEP"), fromEnv("DEMO_BREAK")

	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints the error
	flags.BoolVar(&opts.keep, "keep", keep, "leave cluster and schedulers running (environment: KEEP=1)")
	flags.BoolVar(&opts.breakRule, "break", breakRule, "plant violations, which the verdict must find (environment: DEMO_BREAK=1)")
	flags.BoolVar(&opts.stop, "stop", false, "stop what an earlier run with --keep left running")
	flags.StringVar(&opts.keptDir, "dir", "", fmt.Sprintf("folder of a demo that is left running (default: %s in the checkout)", defaultKeptDir))
	flags.StringVar(&opts.shop, "shop", "", fmt.Sprintf("file of Deployments and Services to place, or %q for the demo's own (default: %s if it exists, else %[1]s)", sampleShop, sharedShop))
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(usage, "Usage: demo [flags], from within the checkout, after \"make build\"")
			flags.SetOutput(usage)
			flags.PrintDefaults()
		}
		return nil, err
	}
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: all options are flags", flags.Arg(0)))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var err error
	if opts.root, err = findRoot(); err != nil {
		return nil, err
	}
	if opts.keptDir == "" {
		opts.keptDir = filepath.Join(opts.root, defaultKeptDir)
	} else if opts.keptDir, err = filepath.Abs(opts.keptDir); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	opts.shop, err = findShop(opts.root, opts.shop)
	return opts, err
}

// findRoot returns the checkout that the working directory is in.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	start := dir
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "demo", "nodes.yaml")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("%s is not inside a checkout of Berth: change to one and try again", start)
		}
		dir = parent
	}
}

// findShop returns the file that --shop means.
func findShop(root, value string) (string, error) {
	sample := filepath.Join(root, "hack", "demo", "sample", "shop.yaml")
	switch value {
	case sampleShop:
		return sample, nil
	case "":
		if shared := filepath.Join(root, sharedShop); isFile(shared) {
			return shared, nil
		}
		return sample, nil
	}
	file, err := filepath.Abs(value)
	if err != nil {
		return "", fmt.Errorf("--shop %s: %w", value, err)
	}
	if !isFile(file) {
		return "", fmt.Errorf("--shop %s: there is no such file; %q means the demo's own", value, sampleShop)
	}
	return file, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
