// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

const (
	// maxLine is the longest line of a log that is read: an API server takes no request that
	// is longer than a few MB.
	maxLine = 64 << 20
	// maxNamed is how many lines that cannot be read are named.
	maxNamed = 5
)

// logs are audit logs, or files of watch events, which are read as one.
type logs struct {
	files []*logFile
	// unreadable counts the lines that are no events, and named has the first of them.
	unreadable int
	named      []string
	// disordered counts the events that are too much older than one before them in their file.
	disordered int
}

// logFile is one of them.
type logFile struct {
	name   string
	lines  *bufio.Reader
	closer []io.Closer
	line   int
	next   logEvent
	// newest is when the newest audit event that was read was answered.
	newest uint64
}

// logEvent is an event of the one kind or of the other.
type logEvent struct {
	audit *auditv1.Event
	watch *metav1.WatchEvent
	// at is when it was answered, or its resourceVersion.
	at uint64
}

// add opens files, folders with files, and stdin.
func (l *logs) add(names []string, stdin io.Reader) error {
	for _, name := range names {
		if name == "-" {
			if err := l.open("standard input", stdin); err != nil {
				return err
			}
			continue
		}
		paths := []string{name}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if paths, err = filepath.Glob(filepath.Join(name, "[^.]*")); err != nil || len(paths) == 0 {
				return fmt.Errorf("%s: the folder has no files (%w)", name, cmp.Or(err, os.ErrNotExist))
			}
		}
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				return err
			}
			if err := l.open(path, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// open adds a file, compressed or not, and reads its first event.
func (l *logs) open(name string, from io.Reader) error {
	f := &logFile{name: name, lines: bufio.NewReaderSize(from, 1<<16)}
	if closer, ok := from.(io.Closer); ok {
		f.closer = append(f.closer, closer)
	}
	l.files = append(l.files, f)
	if magic, _ := f.lines.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(f.lines)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		f.lines = bufio.NewReaderSize(unpacked, 1<<16)
	}
	l.advance(f)
	return nil
}

func (l *logs) close() {
	for _, f := range l.files {
		for _, c := range f.closer {
			_ = c.Close() // it was only read
		}
	}
}

// advance reads the next event of a file. At its end at is 0.
func (l *logs) advance(f *logFile) {
	for {
		f.next = logEvent{}
		content, tooLong, err := f.readLine()
		if errors.Is(err, io.EOF) && len(content) == 0 && !tooLong {
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			l.cannotRead(f, err.Error()) // what is left of the file, as of a compressed one that was cut off
			return
		}
		f.line++
		if content = bytes.TrimSpace(content); len(content) == 0 && !tooLong {
			continue
		}
		if tooLong {
			l.cannotRead(f, fmt.Sprintf("longer than %d MiB", maxLine>>20))
			continue
		}
		if f.next, err = parseEvent(content); err == nil {
			if f.next.audit != nil && f.next.at+uint64(oracle.MaxDisorder/time.Microsecond) < f.newest {
				l.disordered++
			}
			f.newest = max(f.newest, f.next.at)
			return
		}
		l.cannotRead(f, messages.Cut(err.Error()))
	}
}

func (l *logs) cannotRead(f *logFile, why string) {
	if l.unreadable++; len(l.named) < maxNamed {
		l.named = append(l.named, fmt.Sprintf("%s:%d (%s)", f.name, f.line, why))
	}
}

// readLine reads a line of any length; of one that is too long nothing is kept.
func (f *logFile) readLine() (line []byte, tooLong bool, err error) {
	for {
		part, err := f.lines.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > maxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// parseEvent reads a line.
func parseEvent(line []byte) (logEvent, error) {
	var kind struct {
		Kind, APIVersion, Type string
		Object                 struct {
			Metadata struct{ ResourceVersion string }
		}
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return logEvent{}, fmt.Errorf("no JSON object: %w", err)
	}
	switch {
	case kind.Kind == "Event" && kind.APIVersion == auditv1.SchemeGroupVersion.String():
		event := &auditv1.Event{}
		if err := json.Unmarshal(line, event); err != nil {
			return logEvent{}, err
		}
		if event.StageTimestamp.UnixMicro() <= 0 {
			return logEvent{}, errors.New("stageTimestamp is missing")
		}
		return logEvent{audit: event, at: uint64(event.StageTimestamp.UnixMicro())}, nil
	case kind.Kind == "" && kind.Type != "":
		event := &metav1.WatchEvent{}
		if err := json.Unmarshal(line, event); err != nil {
			return logEvent{}, err
		}
		version, _ := strconv.ParseUint(kind.Object.Metadata.ResourceVersion, 10, 64)
		return logEvent{watch: event, at: max(1, version)}, nil
	}
	return logEvent{}, fmt.Errorf("kind %q of apiVersion %q: must be Event of %s, or a watch event", kind.Kind, kind.APIVersion, auditv1.SchemeGroupVersion)
}

// replay has the oracle read all events, in their order.
func (l *logs) replay(to *oracle.Replay) error {
	audits, watches := 0, 0
	for {
		var first *logFile
		for _, f := range l.files {
			if f.next.at != 0 && (first == nil || f.next.at < first.next.at) {
				first = f
			}
		}
		switch {
		case first == nil:
			return nil
		case first.next.audit != nil:
			audits++
			to.Audit(first.next.audit)
		default:
			watches++
			if !to.Watch(first.next.watch) {
				l.cannotRead(first, "no Pod, Node or Namespace with a resourceVersion")
			}
		}
		if audits > 0 && watches > 0 {
			return fmt.Errorf("%s: audit events and watch events cannot be read together: their times cannot be compared", first.name)
		}
		l.advance(first)
	}
}

// gaps says which lines could not be read.
func (l *logs) gaps() []string {
	var gaps []string
	if l.unreadable > 0 {
		gaps = append(gaps, fmt.Sprintf("%d line(s) could not be read: %s", l.unreadable, strings.Join(l.named, ", ")))
	}
	if l.disordered > 0 {
		gaps = append(gaps, fmt.Sprintf("%d event(s) are more than %v older than one before them in their file: give each file of a rotated log as a file of its own", l.disordered, oracle.MaxDisorder))
	}
	return gaps
}
