// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateEnum reports a value that is not supported, and lists the supported values.
func validateEnum[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	if slices.Contains(supported, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}

// validateLabelKey reports what is wrong with a label key; a taint's has the same syntax.
// With missing, an empty key is reported as required with that detail.
func validateLabelKey(path *field.Path, key, missing string) field.ErrorList {
	if key == "" && missing != "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	return metav1validation.ValidateLabelName(key, path)
}

// validateBetween reports a number that is out of its range.
func validateBetween[T int32 | int64](path *field.Path, value, least, most T) field.ErrorList {
	if value < least || value > most {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", least, most))}
	}
	return nil
}

// invalid reports a value for each of the problems that a function of package
// util/validation has found with it.
func invalid(path *field.Path, value string, problems []string) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range problems {
		errs = append(errs, field.Invalid(path, value, problem))
	}
	return errs
}

// tooMany reports a list that is longer than most. Its items are not looked at then.
func tooMany(path *field.Path, length, most int) field.ErrorList {
	if length > most {
		return field.ErrorList{field.TooMany(path, length, most)}
	}
	return nil
}

// seen are the values of a list so far, and where each stands first.
type seen map[string]*field.Path

// repeated reports the value at a path if it stands earlier in the list, at an item that
// says what the detail says; without detail that is left out.
func (s seen) repeated(path, item *field.Path, value, detail string) field.ErrorList {
	first, repeated := s[value]
	if !repeated {
		s[value] = item
		return nil
	}
	err := field.Duplicate(path, value)
	if detail != "" {
		err.Detail = fmt.Sprintf("%s %s", first, detail)
	}
	return field.ErrorList{err}
}
