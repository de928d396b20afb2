// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package callgraph

import (
	"errors"
	"fmt"
	"math"
)

// Problem is a small application that is to be placed. Names are free to choose.
type Problem struct {
	// Nodes are where pods may go.
	Nodes []ProblemNode
	// Services are what is placed. Each stands for a Deployment and the Service in
	// front of it.
	Services []ProblemService
	// Spread keeps the pods of each Service as even over the zones as they can be:
	// a topologySpreadConstraint on the zone with maxSkew 1 and DoNotSchedule.
	Spread bool
}

// ProblemNode is a node.
type ProblemNode struct {
	Name, Zone string
	// MilliCPU is what is free, in thousandths of a CPU.
	MilliCPU int64
}

// ProblemService is a Service and its pods.
type ProblemService struct {
	Name string
	// Replicas is the number of pods, at least 1.
	Replicas int
	// MilliCPU is what each pod requests, in thousandths of a CPU.
	MilliCPU int64
	// Calls are the names of the Services that its pods call.
	Calls []string
}

// Level is how far calls may go and still count as near.
type Level string

const (
	// Node counts the calls within a node.
	Node Level = "Node"
	// Zone counts the calls within a zone.
	Zone Level = "Zone"
)

// instance is a Problem by indexes.
type instance struct {
	*Problem
	routing Routing
	level   Level
	// zones are the zones of the nodes, by index.
	zone      []int
	zoneCount int
	// calls are the Services that each Service calls.
	calls [][]int
	// callers is how many pods call anybody.
	callers int
	// limit is how many pods of a Service a zone may have under Spread, and full
	// how many zones may have that many.
	limit, full []int
}

func newInstance(p *Problem, routing Routing, level Level) (*instance, error) {
	in := &instance{Problem: p, routing: routing, level: level}
	if err := routing.valid(); err != nil {
		return nil, err
	}
	if level != Node && level != Zone {
		return nil, fmt.Errorf("level %q: want %q or %q", level, Node, Zone)
	}
	if err := errors.Join(in.addNodes(), in.addServices()); err != nil {
		return nil, err
	}
	if in.callers == 0 {
		return nil, errors.New("no Service calls another")
	}
	return in, nil
}

func (in *instance) addNodes() error {
	zones, seen := map[string]int{}, map[string]bool{}
	for i, node := range in.Nodes {
		switch {
		case seen[node.Name]:
			return fmt.Errorf("node %q is given twice", node.Name)
		case node.Zone == "":
			return fmt.Errorf("node %q has no zone", node.Name)
		case node.MilliCPU < 0:
			return fmt.Errorf("node %q: %d free thousandths of a CPU: want at least 0", node.Name, node.MilliCPU)
		}
		seen[node.Name] = true
		if _, known := zones[node.Zone]; !known {
			zones[node.Zone] = len(zones)
		}
		in.zone = append(in.zone, zones[in.Nodes[i].Zone])
	}
	in.zoneCount = len(zones)
	if len(in.Nodes) == 0 {
		return errors.New("there are no nodes")
	}
	return nil
}

func (in *instance) addServices() error {
	index := map[string]int{}
	for i, service := range in.Services {
		if _, twice := index[service.Name]; twice {
			return fmt.Errorf("service %q is given twice", service.Name)
		}
		if service.Replicas < 1 || service.MilliCPU < 0 {
			return fmt.Errorf("service %q: %d pods of %d thousandths of a CPU: want at least one, and at least 0", service.Name, service.Replicas, service.MilliCPU)
		}
		index[service.Name] = i
	}
	for _, service := range in.Services {
		var calls []int
		for _, name := range service.Calls {
			callee, known := index[name]
			if !known {
				return fmt.Errorf("service %q calls service %q, which is not given", service.Name, name)
			}
			calls = append(calls, callee)
		}
		in.calls = append(in.calls, calls)
		if len(calls) > 0 {
			in.callers += service.Replicas
		}
		in.limit = append(in.limit, math.MaxInt)
		in.full = append(in.full, in.zoneCount)
		if in.Spread && in.zoneCount > 0 {
			s := len(in.limit) - 1
			in.limit[s] = (service.Replicas + in.zoneCount - 1) / in.zoneCount
			if remainder := service.Replicas % in.zoneCount; remainder > 0 {
				in.full[s] = remainder
			}
		}
	}
	return nil
}
