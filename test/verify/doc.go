// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package verify holds checks of the repository itself, for what neither the
// compiler nor a linter sees: which package imports which, names that stand in
// one place only, licence headers, scripts, the layout, and the image's recipe.
// Every check is a function over a file tree, and its test runs it twice: over a
// small tree with violations, which it must find, and over the repository.
package verify
