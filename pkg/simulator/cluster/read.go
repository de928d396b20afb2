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
	// Namespace is that of objects which name none, as kubectl apply has it. Empty
	// means that such an object is an error.
	Namespace string

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
	// An API server gives every object a UID, and knows its fields, of which a newer
	// one has more. What somebody has written is held to the fields known here.
	written := !bytes.Contains(it.json, []byte(`"uid"`))
	gvk, err := s.kindOf(it)
	if err != nil {
		return err
	}
	s.objects++
	maker, makesPods := workloads[gvk]
	kind, ok := kindNamed(gvk)
	switch {
	case makesPods && !ok:
		kind = Kind{GroupVersionKind: gvk, Namespaced: true, Object: maker.empty}
	case !ok:
		s.reader.left[leftOut{s.file, fmt.Sprintf("object(s) of kind %s (%s) were left out: no plugin reads them", gvk.Kind, gvk.GroupVersion())}]++
		return nil
	}
	obj, accessor, err := s.decode(it, kind, written)
	if err != nil {
		return err
	}
	if makesPods {
		if err := s.addPodsOf(it, &maker, kind, accessor, obj, written); err != nil {
			return err
		}
		if _, ok := kindNamed(gvk); !ok {
			return nil
		}
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

// kindOf returns the kind that an item says it is of, or else that its list is of.
func (s *source) kindOf(it item) (schema.GroupVersionKind, error) {
	var head metav1.TypeMeta
	if err := json.UnmarshalCaseSensitivePreserveInts(it.json, &head); err != nil {
		return schema.GroupVersionKind{}, s.errorAt(it, "", err)
	}
	if head.Kind == "" && head.APIVersion == "" {
		if kind, ok := strings.CutSuffix(it.list.Kind, "List"); ok && kind != "" {
			head.Kind, head.APIVersion = kind, it.list.APIVersion
		}
	}
	switch {
	case head.Kind == "":
		return schema.GroupVersionKind{}, s.errorAt(it, "", errors.New("kind: required: what the object is"))
	case head.APIVersion == "":
		return schema.GroupVersionKind{}, s.errorAt(it, head.Kind, errors.New("apiVersion: required: what the object is"))
	}
	return schema.FromAPIVersionAndKind(head.APIVersion, head.Kind), nil
}

// decode decodes an item of a known kind. What somebody has written gets the
// reader's namespace if it names none, and may have no field that is not known.
func (s *source) decode(it item, kind Kind, written bool) (runtime.Object, metav1.Object, error) {
	obj := kind.Object.DeepCopyObject()
	var unknown []error
	var err error
	if written {
		unknown, err = json.UnmarshalStrict(it.json, obj)
	} else {
		err = json.UnmarshalCaseSensitivePreserveInts(it.json, obj)
	}
	if err != nil {
		// The name helps more than the byte at which it went wrong.
		var head struct {
			metav1.ObjectMeta `json:"metadata"`
		}
		if json.UnmarshalCaseSensitivePreserveInts(it.json, &head) == nil {
			return nil, nil, s.errorAt(it, nameOf(kind, &head.ObjectMeta), err)
		}
		return nil, nil, s.errorAt(it, kind.Kind, err)
	}
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return nil, nil, s.errorAt(it, kind.Kind, fmt.Errorf("%T has no metadata", obj))
	}
	if kind.Namespaced && accessor.GetNamespace() == "" {
		accessor.SetNamespace(s.reader.Namespace)
	}
	if len(unknown) > 0 {
		return nil, nil, s.errorAt(it, nameOf(kind, accessor), fmt.Errorf("%w: correct the spelling, or remove it", unknown[0]))
	}
	return obj, accessor, nil
}

// addPodsOf adds the pods of a workload that somebody has written. One that comes
// from a cluster has its pods there.
func (s *source) addPodsOf(it item, maker *workload, kind Kind, meta metav1.Object, obj runtime.Object, written bool) error {
	if !written {
		if _, ok := kindNamed(kind.GroupVersionKind); !ok {
			s.reader.left[leftOut{s.file, fmt.Sprintf("object(s) of kind %s (%s) were left out: their pods stand for themselves", kind.Kind, kind.GroupVersion())}]++
		}
		return nil
	}
	if err := validate(kind, obj, meta); err != nil {
		return s.errorAt(it, nameOf(kind, meta), err)
	}
	pods, err := maker.podsOf(kind.GroupVersionKind, meta, obj)
	if err != nil {
		return s.errorAt(it, nameOf(kind, meta), err)
	}
	for _, pod := range pods {
		if err := s.reader.cluster.Add(pod); err != nil {
			return s.errorAt(it, nameOf(kind, meta)+", pod "+pod.Name, err)
		}
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
