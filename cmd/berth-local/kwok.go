// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodeheartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/client/clientset/versioned"
	"sigs.k8s.io/kwok/pkg/config"
	"sigs.k8s.io/kwok/pkg/kwok/controllers"
	"sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/client"

	"github.com/berth-scheduler/berth/pkg/localcluster"
)

const (
	// kwokID is fixed: one folder has one kwok, and after a restart it must find
	// the node leases its own instead of waiting until its predecessor's expire.
	kwokID = "berth-local-kwok"
	// podCIDR is where pods get their addresses from.
	podCIDR = "10.244.0.1/16"
	// nodeLeaseSeconds is eight times the kubelet's. kwok renews a lease when a
	// quarter of it is over, and at the kubelet's pace thousands of nodes would keep
	// the API server of one machine busy with nothing else.
	nodeLeaseSeconds = 320
	// parallelism is how many pods, and how many nodes, are worked on at a time.
	parallelism = 16
)

// runKwok runs kwok's controllers on every node and pod until a signal. It uses
// the library, because kwok's command does not start in a binary that links
// Kubernetes' version flag.
func runKwok(ctx context.Context, args []string) error {
	var kubeconfig, readyFile string
	flags := pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of kwok's own user")
	flags.StringVar(&readyFile, "ready-file", "", "file to create once the controllers run")
	if err := flags.Parse(args); err != nil {
		return usageError{err}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx = log.NewContext(ctx, log.NewLogger(os.Stderr, log.LevelWarn))

	conf, err := kwokConfig(kubeconfig)
	if err != nil {
		return err
	}
	controller, err := controllers.NewController(conf)
	if err != nil {
		return fmt.Errorf("making kwok's controllers: %w", err)
	}
	if err := controller.Start(ctx); err != nil {
		return fmt.Errorf("starting kwok's controllers: %w", err)
	}
	if err := os.WriteFile(readyFile, nil, 0o600); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	<-ctx.Done()
	return nil
}

// kwokConfig wires the controllers to the API server, with the stages that make a
// node ready and a pod run, complete and go away without delay.
func kwokConfig(kubeconfig string) (controllers.Config, error) {
	conf := controllers.Config{
		Clock:                                 clock.RealClock{},
		ID:                                    kwokID,
		ManageAllNodes:                        true,
		DisregardStatusWithAnnotationSelector: localcluster.CustomStatusAnnotation + "=" + localcluster.CustomStatus,
		CIDR:                                  podCIDR,
		NodeLeaseDurationSeconds:              nodeLeaseSeconds,
		NodeLeaseParallelism:                  parallelism,
		NodePlayStageParallelism:              parallelism,
		PodPlayStageParallelism:               parallelism,
		PodsOnNodeSyncParallelism:             parallelism,
		EnablePodsOnNodeSyncListPager:         true,
	}
	stages, err := kwokStages()
	if err != nil {
		return conf, err
	}
	conf.LocalStages = stages
	// This clientset has no client-side rate limit.
	clientset, err := client.NewClientset("", kubeconfig)
	if err != nil {
		return conf, fmt.Errorf("--kubeconfig: %w", err)
	}
	restConfig, err := clientset.ToRESTConfig()
	if err != nil {
		return conf, fmt.Errorf("--kubeconfig: %w", err)
	}
	if conf.DynamicClient, err = clientset.ToDynamicClient(); err != nil {
		return conf, fmt.Errorf("making a client: %w", err)
	}
	if conf.RESTMapper, err = clientset.ToRESTMapper(); err != nil {
		return conf, fmt.Errorf("making a client: %w", err)
	}
	if conf.RESTClient, err = rest.RESTClientFor(restConfig); err != nil {
		return conf, fmt.Errorf("making a client: %w", err)
	}
	if conf.TypedClient, err = kubernetes.NewForConfig(restConfig); err != nil {
		return conf, fmt.Errorf("making a client: %w", err)
	}
	if conf.TypedKwokClient, err = versioned.NewForConfig(restConfig); err != nil {
		return conf, fmt.Errorf("making a client: %w", err)
	}
	conf.ImpersonatingDynamicClient = clientset.ToImpersonatingDynamicClient()
	conf.ImpersonatingTypedClient = clientset.ToImpersonatingTypedClient()
	return conf, nil
}

func kwokStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	stages := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, text := range []string{
		nodefast.DefaultNodeInit, nodeheartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		stage, err := config.UnmarshalWithType[*internalversion.Stage](text)
		if err != nil {
			return nil, fmt.Errorf("reading a stage of kwok: %w", err)
		}
		stages[stage.Spec.ResourceRef] = append(stages[stage.Spec.ResourceRef], stage)
	}
	return stages, nil
}
