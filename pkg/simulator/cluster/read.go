// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/json"
)

// Error is what is wrong with a file.
type Error struct {
	// File is its name.
	File string
	// Line is where the object begins, from 1; 0 where lines are not known (JSON).
	Line int
	// Object is the object as far as it is known: the item's number within its
	// list, kind and name. Empty where the problem is not within an object.
	Object string
	// Err is what is wrong, and begins with the field if there is one.
	Err error
}

// Error returns "FILE:LINE: OBJECT: FIELD: PROBLEM".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Object != "" {
		b.WriteString(e.Object + ": ")
	}
	return b.String() + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ReadFiles reads a cluster from the YAML and JSON files, as kubectl prints them,
// of mixed kinds. The first thing that is wrong ends it with an [*Error].
func ReadFiles(paths ...string) (*Cluster, []Note, error) {
	r := NewReader()
	for _, path := range paths {
		if err := r.readFile(path); err != nil {
			return nil, nil, err
		}
	}
	objects, notes := r.Cluster()
	return objects, notes, nil
}

// Reader reads a cluster from any number of inputs.
type Reader struct {
	cluster Cluster
	// left are the objects that were left out, by file and kind.
	left map[leftOut]int
}

// leftOut is a kind of objects in a file of which none was taken.
type leftOut struct {
	file string
	what string
}

// NewReader returns a reader that has read nothing.
func NewReader() *Reader {
	return &Reader{left: map[leftOut]int{}}
}

func (r *Reader) readFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err // names the file
	}
	defer file.Close()
	return r.Read(path, file)
}

// Read adds what an input holds: YAML documents or JSON objects, each a list as
// kubectl prints it or a single object. file is its name, which stands in errors
// and notes. After an error, which is an [*Error], the reader is of no use.
func (r *Reader) Read(file string, in io.Reader) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	isJSON, err := looksLikeJSON(buffered)
	if err != nil {
		return &Error{File: file, Err: err}
	}
	source := &source{file: file, reader: r}
	if isJSON {
		err = source.readJSON(buffered)
	} else {
		err = source.readYAML(buffered)
	}
	if err != nil {
		return err
	}
	if source.objects == 0 {
		return &Error{File: file, Err: errors.New("holds no Kubernetes object: want what \"kubectl get nodes,pods -A -o yaml\" (or json) prints")}
	}
	return nil
}

// looksLikeJSON reports whether the input begins with a brace and a quote, which a
// YAML document of kubectl never does. A byte order mark is skipped, and nothing
// else.
func looksLikeJSON(in *bufio.Reader) (bool, error) {
	head, err := in.Peek(in.Size())
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	const mark = "\xef\xbb\xbf"
	if bytes.HasPrefix(head, []byte(mark)) {
		if _, err := in.Discard(len(mark)); err != nil {
			return false, err
		}
		head = head[len(mark):]
	}
	const space = " \t\r\n"
	inner, ok := bytes.CutPrefix(bytes.TrimLeft(head, space), []byte("{"))
	inner = bytes.TrimLeft(inner, space)
	return ok && len(inner) > 0 && (inner[0] == '"' || inner[0] == '}'), nil
}

// Cluster returns what was read, and what the user should know of it.
func (r *Reader) Cluster() (*Cluster, []Note) {
	var notes []Note
	for left, count := range r.left {
		notes = append(notes, Note{Source: left.file, Text: fmt.Sprintf("%d %s", count, left.what)})
	}
	slices.SortFunc(notes, func(a, b Note) int { return strings.Compare(a.String(), b.String()) })
	return &r.cluster, append(notes, r.cluster.strayNotes()...)
}

// strayNotes tell of bound pods whose node is not there.
func (c *Cluster) strayNotes() []Note {
	nodes := sets.New[string]()
	for _, node := range c.nodes {
		nodes.Insert(node.Name)
	}
	stray, example := 0, ""
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" && !nodes.Has(pod.Spec.NodeName) {
			stray++
			example = fmt.Sprintf("%s/%s on %q", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	if stray == 0 {
		return nil
	}
	return []Note{{Text: fmt.Sprintf("%d pod(s) are bound to nodes that are not in the input and occupy nothing, for example %s", stray, example)}}
}

// source is one input that is being read.
type source struct {
	file    string
	reader  *Reader
	objects int
}

// item is one object of the input as JSON.
type item struct {
	// line is where it begins, or 0.
	line int
	// number is its place in its list from 1; 0 is a document of its own.
	number int
	// list is the kind of its list as far as it is known, for lists of one kind
	// whose items do not say what they are.
	list metav1.TypeMeta
	json []byte
}

// add decodes an item and adds it to the cluster.
func (s *source) add(it item) error {
	var head struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(it.json, &head.TypeMeta); err != nil {
		return s.errorAt(it, "", err)
	}
	s.objects++
	if head.Kind == "" && head.APIVersion == "" {
		if kind, ok := strings.CutSuffix(it.list.Kind, "List"); ok && kind != "" {
			head.Kind, head.APIVersion = kind, it.list.APIVersion
		}
	}
	switch {
	case head.Kind == "":
		return s.errorAt(it, "", errors.New("kind: required: what the object is"))
	case head.APIVersion == "":
		return s.errorAt(it, head.Kind, errors.New("apiVersion: required: what the object is"))
	}
	kind, ok := kindNamed(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if !ok {
		s.reader.left[leftOut{s.file, fmt.Sprintf("object(s) of kind %s (%s) were left out: no plugin reads them", head.Kind, head.APIVersion)}]++
		return nil
	}
	obj := kind.Object.DeepCopyObject()
	if err := json.UnmarshalCaseSensitivePreserveInts(it.json, obj); err != nil {
		// The name helps more than the byte at which it went wrong.
		if json.UnmarshalCaseSensitivePreserveInts(it.json, &head) == nil {
			return s.errorAt(it, nameOf(kind, &head.ObjectMeta), err)
		}
		return s.errorAt(it, head.Kind, err)
	}
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return s.errorAt(it, head.Kind, fmt.Errorf("%T has no metadata", obj))
	}
	before := len(s.reader.cluster.pods)
	if err := s.reader.cluster.Add(obj); err != nil {
		return s.errorAt(it, nameOf(kind, accessor), err)
	}
	if isPod(obj) && len(s.reader.cluster.pods) == before {
		s.reader.left[leftOut{s.file, "pod(s) were left out: they have terminated"}]++
	}
	return nil
}

func isPod(obj runtime.Object) bool {
	_, ok := obj.(*corev1.Pod)
	return ok
}

// nameOf returns "Pod default/web".
func nameOf(kind Kind, meta metav1.Object) string {
	name := meta.GetName()
	if meta.GetNamespace() != "" {
		name = meta.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(kind.Kind + " " + name)
}

// errorAt puts an error to its place.
func (s *source) errorAt(it item, object string, err error) error {
	switch {
	case it.number > 0 && object != "":
		object = fmt.Sprintf("item %d (%s)", it.number, object)
	case it.number > 0:
		object = fmt.Sprintf("item %d", it.number)
	}
	return &Error{File: s.file, Line: it.line, Object: object, Err: err}
}
