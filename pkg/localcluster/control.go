// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"slices"
)

// Component names one process of the control plane.
type Component string

// The components, in the order in which they start. They stop in reverse.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Kwok              Component = "kwok"
)

// Components returns every component in the order of their start.
func Components() []Component {
	return []Component{Etcd, APIServer, ControllerManager, Kwok}
}

// PID returns the process id of a component, 0 when it does not run.
func (c *Cluster) PID(component Component) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[component]; p != nil && p.Running() {
		return p.PID()
	}
	return 0
}

// KillComponent kills one component with SIGKILL and returns when it is gone. The
// others run on, and Failed stays silent. RestartComponent brings it back.
func (c *Cluster) KillComponent(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[component]
	if p == nil || !p.Running() {
		return fmt.Errorf("killing %s: it does not run", component)
	}
	p.Kill()
	return nil
}

// RestartComponent stops a component if it runs, starts it again with the same
// flags (the API server with the same port), and returns when it is ready, or with
// the failure of any component that ends meanwhile. One that had ended before, this
// one too, is no failure of the restart. A name that is not among Components is an
// error.
func (c *Cluster) RestartComponent(ctx context.Context, component Component) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("unknown component %q: must be one of %v", component, Components())
	}
	if err := c.stopForRestart(component); err != nil {
		return err
	}
	if err := c.launch(component); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	return c.waitReady(ctx, component)
}

// stopForRestart stops a component, and forgets those that have ended by now.
func (c *Cluster) stopForRestart(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for other, p := range c.processes {
		if !p.Running() {
			delete(c.processes, other)
		}
	}
	if p := c.processes[component]; p != nil {
		return p.Stop(c.stopTimeout(component))
	}
	return nil
}

// failure returns why a component has ended without being asked to; nil if none has.
func (c *Cluster) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, component := range Components() {
		if p := c.processes[component]; p != nil {
			if err := p.Err(); err != nil {
				return withCause(err)
			}
		}
	}
	return nil
}
