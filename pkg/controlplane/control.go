// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
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
// not deliver it again.
func (c *Cluster) RestartComponent(ctx context.Context, component Component) error {
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
