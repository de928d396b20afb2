// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	runtimego "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"
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

// Reader reads a cluster from any number of files.
type Reader struct {
	// Namespace is that of objects which name none, as kubectl apply has it. Empty
	// means that such an object is an error.
	Namespace string
	// Keep, if it is not nil, is shown the JSON of each object that is of none of the
	// [Supported] kinds, and says whether the caller takes it; then it is not told as
	// left out.
	Keep func(kind schema.GroupVersionKind, object []byte) (taken bool, err error)

	// served are the objects that an API server gave out, and written are those that
	// somebody has written and not applied yet.
	served  Cluster
	written []writtenObject
	// workloads are those whose pods are among the written objects.
	workloads []workload
	// places are where objects stand.
	places map[placeKey]place
	// ended are the pods that were left out because they have terminated, by
	// NAMESPACE/NAME.
	ended map[string]*corev1.Pod
	// left are the objects that were left out, by file and kind.
	left map[leftOut]int
}

// leftOut is a kind of objects in a file that are left out.
type leftOut struct {
	file string
	what string
}

// NewReader returns a reader that has read nothing.
func NewReader() *Reader {
	return &Reader{places: map[placeKey]place{}, left: map[leftOut]int{}, ended: map[string]*corev1.Pod{}}
}

// Ended returns the pod of this name that is in no cluster because it has terminated, nil
// if there was none.
func (r *Reader) Ended(namespace, name string) *corev1.Pod { return r.ended[namespace+"/"+name] }

// Read adds what a file holds: YAML documents or JSON objects, each a list as
// kubectl prints it or a single object. file is its name, which stands in errors
// and notes. After an error, which is an [*Error], the reader is of no use.
func (r *Reader) Read(file string, content []byte) error {
	source := &source{file: file, reader: r}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	read := source.readYAML
	if startsAsJSON.Match(content) {
		read = source.readJSON
	}
	if err := read(content); err != nil {
		return err
	}
	if source.objects == 0 {
		return &Error{File: file, Err: errors.New("holds no Kubernetes object: want what \"kubectl get nodes,pods -A -o yaml\" (or json) prints")}
	}
	return nil
}

// startsAsJSON matches a brace and a quote, with which a YAML document of kubectl
// never begins.
var startsAsJSON = regexp.MustCompile(`^\s*\{\s*["}]`)

// source is one file that is being read.
type source struct {
	file    string
	reader  *Reader
	objects int
}

// item is one object of a file.
type item struct {
	// line is where it begins, or 0.
	line int
	// number is its place in its list from 1; 0 is a document of its own.
	number int
	// list is the kind of its list, for lists of one kind whose items do not say what
	// they are.
	list metav1.TypeMeta
	json []byte
	// yaml is the text that becomes json; nil if that is there.
	yaml *yamlItem
}

// document is an object, or a list of objects.
type document struct {
	metav1.TypeMeta `json:",inline"`

	Items items `json:"items"`
}

// items are those of a list. They are present, too, if they are null.
type items struct {
	present bool
	values  []json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *items) UnmarshalJSON(text []byte) error {
	i.present = true
	if err := json.Unmarshal(text, &i.values); err != nil {
		return fmt.Errorf("items: want a list, not %s", text[:min(len(text), 32)])
	}
	return nil
}

// addDocument adds a document, of which whole is the text, and the items of a list
// that were cut out of it. An empty list still says that there are no objects of its
// kind.
func (s *source) addDocument(d *document, whole item, cut []yamlItem) error {
	if !d.Items.present {
		return s.addItems([]item{whole})
	}
	list := make([]item, 0, len(d.Items.values)+len(cut))
	for i, value := range d.Items.values {
		list = append(list, item{line: whole.line, number: i + 1, list: d.TypeMeta, json: value})
	}
	for i := range cut {
		list = append(list, item{line: cut[i].line, number: i + 1, list: d.TypeMeta, yaml: &cut[i]})
	}
	if err := s.addItems(list); err != nil {
		return err
	}
	kind, ok := strings.CutSuffix(d.Kind, "List")
	if !ok {
		return s.errorAt(whole, "", fmt.Errorf("kind: is %q, but the document has items: want List", d.Kind))
	}
	s.objects++
	if listed, ok := kindNamed(schema.FromAPIVersionAndKind(d.APIVersion, kind)); ok {
		s.reader.served.has(listed.Resource)
	}
	return nil
}

// An API server gives every object a UID, and knows its fields, of which a newer
// one has more: fromServer ignores what it does not know. What somebody has written
// is held to the fields known here.
var (
	fromServer = newDecoder(false)
	asWritten  = newDecoder(true)
)

func newDecoder(strict bool) runtime.Decoder {
	return serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{Strict: strict})
}

// batch is how many items are decoded before they are added: the texts of a large
// cluster need not all be objects at one time, and those of a batch are decoded side
// by side.
const batch = 1024

// addItems decodes items and adds them in their order.
func (s *source) addItems(list []item) error {
	for part := range slices.Chunk(list, batch) {
		results := make([]decoded, len(part))
		var next atomic.Int64
		var group sync.WaitGroup
		for range min(runtimego.GOMAXPROCS(0), len(part)) {
			group.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(part)); i = next.Add(1) - 1 {
					results[i] = s.read(part[i])
				}
			})
		}
		group.Wait()
		for i := range results {
			if err := s.add(&results[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// decoded is an item that was decoded.
type decoded struct {
	item
	object runtime.Object
	gvk    *schema.GroupVersionKind
	// written is whether it was written by hand: it comes from no API server.
	written bool
	err     error
}

// read decodes an item. It may be called concurrently.
func (s *source) read(it item) decoded {
	d := decoded{item: it}
	if it.yaml != nil {
		if d.json, d.err = it.yaml.toJSON(); d.err != nil {
			d.err = s.errorAt(it, "", d.err)
			return d
		}
	}
	d.written = !bytes.Contains(d.json, []byte(`"uid"`))
	d.object, d.gvk, d.err = s.decode(d.item, d.written)
	return d
}

// add adds an item. For a workload written by hand it adds the pods; one that comes from a
// cluster has its pods there.
func (s *source) add(d *decoded) error {
	it, obj, gvk, written := d.item, d.object, d.gvk, d.written
	if d.err != nil {
		return d.err
	}
	s.objects++
	kind, supported := kindNamed(*gvk)
	if !supported && s.reader.Keep != nil {
		taken, err := s.reader.Keep(*gvk, it.json)
		if err != nil {
			return s.errorAt(it, gvk.Kind, err)
		}
		if taken {
			return nil
		}
	}
	load := workloadOf(*gvk, obj)
	if !supported {
		if why := whyLeftOut(*gvk, load != nil, written); why != "" {
			s.leaveOut("object(s) of kind %s (%s) were left out: "+why, gvk.Kind, gvk.GroupVersion())
			return nil
		}
		kind = Kind{GroupVersionKind: *gvk, Namespaced: true}
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return s.errorAt(it, gvk.Kind, err)
	}
	name := nameOf(gvk, accessor)
	if load != nil && written {
		if err := validate(kind, obj, accessor); err != nil {
			return s.errorAt(it, name, err)
		}
		if err := s.addPods(it, name, load); err != nil {
			return err
		}
	}
	if !supported {
		return nil
	}
	if err := s.addObject(it, kind, obj, written); err != nil {
		return s.errorAt(it, name, err)
	}
	return nil
}

// addObject adds an object of a supported kind: one written by hand waits for the cluster
// that it is applied to.
func (s *source) addObject(it item, kind Kind, obj runtime.Object, written bool) error {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if err := validate(kind, obj, accessor); err != nil {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		if podutil.IsPodTerminal(pod) {
			s.reader.served.has(kind.Resource)
			s.leaveOut("pod(s) were left out: they have terminated")
			s.reader.ended[pod.Namespace+"/"+pod.Name] = pod
			return nil
		}
	}
	setDefaults(obj)
	key := placeKey{keyOf(kind, accessor), written}
	if other, ok := s.reader.places[key]; ok {
		return fmt.Errorf("metadata.name: there are two %s: the other is %s", key.objectKey, other)
	}
	here := place{file: s.file, line: it.line, number: it.number}
	s.reader.places[key] = here
	if written {
		s.reader.written = append(s.reader.written, writtenObject{obj, key.objectKey, here})
		return nil
	}
	return s.reader.served.Add(obj)
}

// whyLeftOut returns why an object is left out that is of none of the kinds that a
// cluster here has, "" if its pods are taken.
func whyLeftOut(kind schema.GroupVersionKind, isWorkload, written bool) string {
	switch {
	case isWorkload && written:
		return ""
	case kind.Kind == "DaemonSet" && written:
		return "each of their pods names its node"
	case isWorkload || kind.Kind == "DaemonSet":
		return "their pods stand for themselves"
	}
	return "no plugin reads them"
}

// addPods adds the pods of a workload written by hand.
func (s *source) addPods(it item, name string, load *workload) error {
	pods, err := load.pods()
	if err != nil {
		return s.errorAt(it, name, err)
	}
	for _, pod := range pods {
		if err := s.addObject(it, podKind, pod, true); err != nil {
			return s.errorAt(it, name+", pod "+pod.Name, err)
		}
	}
	load.place = place{file: s.file, line: it.line, number: it.number}
	s.reader.workloads = append(s.reader.workloads, *load)
	return nil
}

// leaveOut counts an object that is not taken.
func (s *source) leaveOut(format string, args ...any) {
	s.reader.left[leftOut{s.file, fmt.Sprintf(format, args...)}]++
}

// decode decodes an item into an object that has a namespace, the reader's if it
// names none. The object is nil if its kind is not known here.
func (s *source) decode(it item, written bool) (runtime.Object, *schema.GroupVersionKind, error) {
	if !written {
		if obj, gvk := decodeUsual(it.json); obj != nil {
			return obj, gvk, nil
		}
	}
	if !bytes.HasPrefix(bytes.TrimSpace(it.json), []byte("{")) {
		return nil, nil, s.errorAt(it, "", errors.New("want a Kubernetes object, with kind and apiVersion"))
	}
	decoder := fromServer
	if written {
		decoder = asWritten
	}
	obj, gvk, err := decoder.Decode(it.json, it.kindOfList(), nil)
	switch {
	case runtime.IsMissingKind(err):
		return nil, nil, s.errorAt(it, "", errors.New("kind: required: what the object is"))
	case runtime.IsMissingVersion(err):
		return nil, nil, s.errorAt(it, gvk.Kind, errors.New("apiVersion: required: what the object is"))
	case runtime.IsNotRegisteredError(err):
		return nil, gvk, nil
	case gvk == nil:
		return nil, nil, s.errorAt(it, "", err)
	}
	accessor := metadataOf(obj, it.json)
	if accessor == nil {
		return obj, gvk, nil // a list without items
	}
	if kind, ok := kindNamed(*gvk); accessor.GetNamespace() == "" && (kind.Namespaced || !ok) {
		accessor.SetNamespace(s.reader.Namespace)
	}
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		err = fmt.Errorf("%w: correct the spelling, or remove it", unknown.Errors()[0])
	}
	if err != nil {
		return nil, nil, s.errorAt(it, nameOf(gvk, accessor), err)
	}
	return obj, gvk, nil
}

// kindOfList returns what the items of the item's list are, nil if it stands in none that
// says so.
func (it *item) kindOfList() *schema.GroupVersionKind {
	kind, ok := strings.CutSuffix(it.list.Kind, "List")
	if !ok || kind == "" {
		return nil
	}
	return ptr.To(schema.FromAPIVersionAndKind(it.list.APIVersion, kind))
}

// usual matches the beginning of a Pod and of a Node as kubectl prints them, and as Go
// programs do.
var usual = regexp.MustCompile(`^\{\s*(?:"apiVersion":\s*"v1",\s*)?"kind":\s*"(Pod|Node)",`)

// decodeUsual decodes what a large cluster has thousands of in one step, where a decoder
// first finds out what it is. It returns nil for what begins otherwise, does not name all
// that it has to, or is wrong: the decoder says why.
func decodeUsual(text []byte) (runtime.Object, *schema.GroupVersionKind) {
	begin := usual.FindSubmatch(text[:min(len(text), 128)])
	if begin == nil {
		return nil, nil
	}
	var obj interface {
		runtime.Object
		metav1.Object
	} = &corev1.Pod{}
	if string(begin[1]) == "Node" {
		obj = &corev1.Node{}
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, obj); err != nil {
		return nil, nil
	}
	gvk := obj.GetObjectKind().GroupVersionKind() // a second kind behind the first one counts
	if gvk != corev1.SchemeGroupVersion.WithKind(string(begin[1])) || obj.GetNamespace() == "" && gvk.Kind == "Pod" {
		return nil, nil
	}
	return obj, &gvk
}

// metadataOf returns the metadata of an object, nil if it has none. Of an item that
// could not be decoded it reads what can be read: the name helps more than the byte at
// which it went wrong.
func metadataOf(obj runtime.Object, text []byte) metav1.Object {
	if obj != nil {
		accessor, _ := meta.Accessor(obj) // an error leaves it nil
		return accessor
	}
	var head struct {
		metav1.ObjectMeta `json:"metadata"`
	}
	if json.Unmarshal(text, &head) != nil {
		return &metav1.ObjectMeta{}
	}
	return &head.ObjectMeta
}

// nameOf returns "Pod default/web".
func nameOf(gvk *schema.GroupVersionKind, meta metav1.Object) string {
	name := meta.GetName()
	if meta.GetNamespace() != "" {
		name = meta.GetNamespace() + "/" + name
	}
	return strings.TrimSpace(gvk.Kind + " " + name)
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
