// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxServices and maxTopologyKeys are what Colocation reads of an annotation.
const (
	maxServices     = 32
	maxTopologyKeys = 8
)

func validateApplications(path *field.Path, apps []Application) field.ErrorList {
	var errs field.ErrorList
	for i := range apps {
		errs = append(errs, validateApplication(path.Index(i), &apps[i])...)
	}
	return errs
}

func validateApplication(path *field.Path, app *Application) field.ErrorList {
	errs := validateName(path.Child("name"), app.Name, validation.IsDNS1035Label)
	errs = append(errs, validateRange(path.Child("copies"), *app.Copies, 1, maxPods)...)
	errs = append(errs, validateRange(path.Child("replicas"), *app.Replicas, 1, maxPods)...)
	errs = append(errs, validateEnum(path.Child("colocate"), app.Colocate, Neighbours, Callees, Nobody)...)
	if prefer := path.Child("colocatePrefer"); len(app.ColocatePrefer) > maxTopologyKeys {
		errs = append(errs, field.TooMany(prefer, len(app.ColocatePrefer), maxTopologyKeys))
	} else {
		errs = append(errs, validateLabelKeys(prefer, app.ColocatePrefer)...)
	}
	if app.Colocate == Nobody && len(app.ColocatePrefer) > 0 {
		errs = append(errs, field.Forbidden(path.Child("colocatePrefer"), "colocate is Nobody: remove one of the two"))
	}
	services := path.Child("services")
	if len(app.Services) == 0 {
		return append(errs, field.Required(services, "describe at least one service"))
	}
	var known []string
	for i := range app.Services {
		if name := app.Services[i].Name; slices.Contains(known, name) && name != "" {
			errs = append(errs, field.Duplicate(services.Index(i).Child("name"), name))
		}
		known = append(known, app.Services[i].Name)
	}
	for i := range app.Services {
		errs = append(errs, validateService(services.Index(i), app, &app.Services[i], known)...)
	}
	if len(errs) > 0 || app.Colocate == Nobody {
		return errs
	}
	for i := range app.Services {
		if near := len(neighboursOf(app, &app.Services[i])); near > maxServices {
			errs = append(errs, field.Invalid(services.Index(i), app.Services[i].Name, fmt.Sprintf("would name %d services to be near, of which a pod can have %d: set colocate to Callees or Nobody", near, maxServices)))
		}
	}
	return errs
}

func validateService(path *field.Path, app *Application, service *Service, known []string) field.ErrorList {
	errs := validateName(path.Child("name"), service.Name, validation.IsDNS1035Label)
	if len(errs) == 0 && *app.Copies > 0 {
		if longest := objectName(app, *app.Copies-1, service); len(longest) > validation.DNS1035LabelMaxLength {
			errs = append(errs, field.Invalid(path.Child("name"), service.Name, fmt.Sprintf("its Service would be called %q, which is longer than %d characters", longest, validation.DNS1035LabelMaxLength)))
		}
	}
	errs = append(errs, validateRange(path.Child("replicas"), *service.Replicas, 1, maxPods)...)
	errs = append(errs, validateQuantity(path.Child("cpu"), service.CPU)...)
	errs = append(errs, validateQuantity(path.Child("memory"), service.Memory)...)
	for i, callee := range service.Calls {
		callPath := path.Child("calls").Index(i)
		switch {
		case !slices.Contains(known, callee):
			errs = append(errs, field.NotFound(callPath, callee))
		case callee == service.Name:
			errs = append(errs, field.Invalid(callPath, callee, "must be another service: a pod that calls its own is near it anyway"))
		case slices.Contains(service.Calls[:i], callee):
			errs = append(errs, field.Duplicate(callPath, callee))
		}
	}
	return errs
}
