// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"regexp"
	"strings"
)

// What the decoder of a KubeSchedulerConfiguration says is wrong, several problems in one
// line: unknown field "profiles[0].x", key "x" already set in map, within "decoding
// .profiles[0].pluginConfig[1]: … decoding args for plugin X: …".
var (
	decodingProblem = regexp.MustCompile(`unknown field "([^"]*)"|(?:line (\d+): )?key "([^"]*)" already set in map|duplicate field "([^"]*)"`)
	decodingArgs    = regexp.MustCompile(`decoding \.(profiles\[\d+\])\.pluginConfig\[\d+\]: (?:strict decoding error: )?decoding args for plugin ([^:]+): `)
	wrongType       = regexp.MustCompile(`json: cannot unmarshal (\S+)(?: (\S+))? into Go struct field \w+\.(\S+) of type (\S+)`)
)

// decodingFindings takes an error of the decoder apart, a finding for each problem. It is
// nil for another error.
func decodingFindings(source, text string) []Finding {
	within := ""
	if args := decodingArgs.FindStringSubmatch(text); args != nil {
		within = fmt.Sprintf("%s.pluginConfig[%s].args", args[1], args[2])
	}
	var findings []Finding
	if strings.Contains(text, "strict decoding error") {
		for _, problem := range decodingProblem.FindAllStringSubmatch(text, -1) {
			findings = append(findings, strictFinding(source, within, problem))
		}
	}
	if wrong := wrongType.FindStringSubmatch(text); wrong != nil {
		findings = append(findings, Finding{
			Error, source, join(within, wrong[3]), fmt.Sprintf("is a %s, and must be a %s", wrong[1], yamlType(wrong[4])), "write a value of that type",
		})
	}
	return findings
}

func strictFinding(source, within string, problem []string) Finding {
	unknown, line, key, duplicate := problem[1], problem[2], problem[3], problem[4]
	if unknown != "" {
		return Finding{Error, source, join(within, unknown), "there is no such field", "correct the spelling, or remove it"}
	}
	where := ""
	if line != "" {
		where = ", the second time at line " + line
	}
	return Finding{Error, source, join(within, key+duplicate), "is set twice in one object" + where, "remove one of the two"}
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// yamlType says what a type of Go is in a file.
func yamlType(goType string) string {
	switch {
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "float"):
		return "number"
	case goType == "string":
		return "string"
	case goType == "bool":
		return "boolean"
	case strings.HasPrefix(goType, "[]"):
		return "list"
	}
	return goType
}
