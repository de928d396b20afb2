// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// PID returns the process id of a component, 0 when it does not run.
func (c *Cluster) PID(component Component) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[component]; p != nil && p.running() {
		return p.cmd.Process.Pid
	}
	return 0
}

// KillComponent kills one component with SIGKILL and returns when it is gone. The
// others run on, and Failed stays silent. RestartComponent brings it back.
func (c *Cluster) KillComponent(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.processes[component]
	if p == nil || !p.running() {
		return fmt.Errorf("killing %s: %w", component, errNotRunning)
	}
	p.kill()
	return nil
}

// RestartComponent stops a component if it runs, starts it again with the same
// flags (the API server with the same port), and returns when it is ready. When
// any component dies meanwhile, it returns that *ComponentError, and Failed does
// not deliver it again. One that was dead before, this one too, is no failure of
// the restart. A name that is not among Components is an error.
func (c *Cluster) RestartComponent(ctx context.Context, component Component) error {
	if !slices.Contains(Components(), component) {
		return fmt.Errorf("unknown component %q: must be one of %v", component, Components())
	}
	c.passOverDead()
	if err := c.stopComponent(component); err != nil {
		return err
	}
	if err := c.launch(component); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.StartTimeout)
	defer cancel()
	return c.waitReady(ctx, component)
}

func (c *Cluster) stopComponent(component Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.processes[component]; p != nil && p.running() {
		return p.stop(c.grace(component))
	}
	return nil
}

// passOverDead keeps what is dead by now from ending a later wait.
func (c *Cluster) passOverDead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.processes {
		p.told = p.told || !p.running()
	}
}

// takeFailure returns the death of a component that was not asked to end, once,
// and takes it from Failed; nil without one.
func (c *Cluster) takeFailure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, component := range Components() {
		p := c.processes[component]
		if p == nil || p.told || p.running() || p.asked.Load() {
			continue
		}
		p.told = true
		c.dropFailure(component)
		return p.failure()
	}
	return nil
}

// dropFailure takes the death of a component from Failed. The caller holds mu.
func (c *Cluster) dropFailure(component Component) {
	for range len(c.failed) {
		select {
		case failure := <-c.failed:
			if died, ok := errors.AsType[*ComponentError](failure); !ok || died.Component != component {
				c.failed <- failure // there is room: one of each component
			}
		default: // somebody else reads it
		}
	}
}
