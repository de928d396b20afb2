// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package baselines has the strategies that those of GPUDevice are compared with: the
// policy of the fragmentation paper (FGD, ATC'23), its dot-product baseline, and chance.
// The simulator alone registers them: a profile for it may name one as
// scoringStrategy.type, which berth-scheduler refuses.
package baselines
