// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/output"
)

// The values of --output. Each command has a list of those that it takes.
const (
	outputTable    = "table"
	outputWide     = "wide"
	outputJSON     = "json"
	outputYAML     = "yaml"
	outputCSV      = "csv"
	outputMarkdown = "markdown"
)

var (
	checkOutputs    = []string{outputTable, outputJSON, outputYAML}
	devicesOutputs  = []string{outputTable, outputWide, outputJSON, outputYAML}
	explainOutputs  = []string{outputTable, outputWide, outputJSON, outputYAML}
	simulateOutputs = []string{outputTable, outputJSON, outputYAML, outputCSV}
	benchOutputs    = []string{outputTable, outputJSON, outputMarkdown}
)

// addOutputFlag adds --output with the formats of the command, and their completion.
func addOutputFlag(cmd *cobra.Command, value *string, formats []string) {
	last := len(formats) - 1
	usage := "output format: " + strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(value, "output", "o", outputTable, usage)
	completeFlag(cmd, "output", completeValues(formats...))
}

// oneOf returns an error unless the flag has one of the values.
func oneOf(flag, value string, values ...string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return usagef("%s: invalid value %q: must be one of %s", flag, value, strings.Join(values, ", "))
}

// marshal returns a result for programs, as JSON or YAML.
func marshal(format string, value any) (string, error) {
	if format == outputYAML {
		text, err := yaml.Marshal(value)
		return string(text), err
	}
	var text strings.Builder
	err := output.WriteJSON(&text, value)
	return text.String(), err
}
