// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datasets finds the public data sets that tests and the demo use where
// they are at hand. They are not part of the repository: download them into one
// folder, and name it in the environment variable BERTH_DATA.
//
//	openb/             Alibaba's trace of GPU pods (cluster-trace-gpu-v2023 in
//	                   github.com/alibaba/clusterdata): openb_*.csv of its folder
//	                   csv. In openb/expected, the files of
//	                   experiments/analysis/expected_results in
//	                   github.com/hkust-adsl/kubernetes-scheduler-simulator.
//	online-boutique/   release/kubernetes-manifests.yaml of
//	                   github.com/GoogleCloudPlatform/microservices-demo.
package datasets

import (
	"os"
	"path/filepath"
	"runtime"
)

// Variable is the environment variable that names the folder.
const Variable = "BERTH_DATA"

// OnlineBoutique is the file with Online Boutique's manifests, for Path.
const OnlineBoutique = "online-boutique/kubernetes-manifests.yaml"

// Path returns the path of a file or folder of the data sets, whether it is there or
// not. Without BERTH_DATA it is in shared/data beside the checkout.
func Path(name string) string {
	folder := os.Getenv(Variable)
	if folder == "" {
		_, source, _, _ := runtime.Caller(0)
		folder = filepath.Join(filepath.Dir(source), "..", "..", "..", "..", "shared", "data")
	}
	return filepath.Join(folder, name)
}
