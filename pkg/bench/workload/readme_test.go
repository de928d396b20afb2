// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fieldsOf returns the paths of all fields of a type that have no fields of their
// own.
func fieldsOf(path string, typ reflect.Type) []string {
	switch typ.Kind() {
	case reflect.Pointer:
		return fieldsOf(path, typ.Elem())
	case reflect.Slice:
		return fieldsOf(path+"[]", typ.Elem())
	case reflect.Struct:
		if typ == reflect.TypeFor[Quantity]() || typ == reflect.TypeFor[Duration]() {
			return []string{path}
		}
	default:
		return []string{path}
	}
	var fields []string
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		// Existing pods are described with the others.
		if name == "-" || path == "spec" && name == "existing" {
			continue
		}
		fields = append(fields, fieldsOf(strings.TrimPrefix(path+"."+name, "."), field.Type)...)
	}
	return fields
}

func readme(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestReadme holds the tables of README.md to the fields that there are.
func TestReadme(t *testing.T) {
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(readme(t), -1) {
		documented = append(documented, row[1])
	}
	fields := fieldsOf("", reflect.TypeFor[Workload]())
	slices.Sort(documented)
	slices.Sort(fields)
	if diff := cmp.Diff(fields, documented); diff != "" {
		t.Errorf("README.md documents other fields than there are (-types,+README):\n%s", diff)
	}
}

// TestReadmeExample reads the example, and makes the mistake that is shown.
func TestReadmeExample(t *testing.T) {
	text := readme(t)
	_, example, _ := strings.Cut(text, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if _, err := Read(write(t, example)); err != nil {
		t.Error(err)
	}
	_, err := Read(write(t, strings.Replace(example, "milli: 250", "milli: 1500", 1)))
	_, shown, _ := strings.Cut(text, "mine.yaml: ")
	shown, _, _ = strings.Cut(shown, "\n")
	if err == nil || !strings.HasSuffix(err.Error(), ".yaml: "+shown) {
		t.Errorf("The error is %v, and README.md shows %q", err, shown)
	}
}

// TestReadmeTable finds every workload in the table, with its numbers.
func TestReadmeTable(t *testing.T) {
	text := readme(t)
	for _, file := range shipped(t, Kind) {
		name := filepath.Base(file)
		if row := "\n| [" + strings.TrimSuffix(name, ".yaml") + "](" + name + ") |"; !strings.Contains(text, row) {
			t.Errorf("README.md has no row that starts with %q", row[1:])
		}
	}
}
