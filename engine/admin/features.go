package admin

import (
	"context"

	"github.com/posthouse/posthouse/engine/config"
	"github.com/posthouse/posthouse/replication/meta"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The upgrade types of KIP-778.
const (
	featureUpgrade         int8 = 1
	featureSafeDowngrade   int8 = 2
	featureUnsafeDowngrade int8 = 3
)

// UpdateFeatures serves v0–v2 (KIP-584, KIP-778; FeatureControlManager.java):
// all updates or none. The new levels are in ApiVersions from then on.
func (h *Handlers) UpdateFeatures(ctx context.Context, req *kmsg.UpdateFeaturesRequest, cl Client) *kmsg.UpdateFeaturesResponse {
	ctx, cancel := withTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	resp := kmsg.NewPtrUpdateFeaturesResponse()
	resp.Version = req.Version
	im := h.Image()
	levels := make(map[string]int16, len(req.FeatureUpdates))
	var err error
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		kind := u.UpgradeType
		if req.Version == 0 {
			kind = featureUpgrade
			if u.AllowDowngrade {
				kind = featureSafeDowngrade
			}
		}
		if err = checkFeature(im, u.Feature, u.MaxVersionLevel, kind); err != nil {
			break
		}
		levels[u.Feature] = u.MaxVersionLevel
	}
	if err == nil && !req.ValidateOnly {
		if err = h.Controller.UpdateFeatures(ctx, levels); err == nil {
			for name, level := range levels {
				h.changed(cl, "feature "+name, "level", config.FeatureLevel(name, im.Features), level)
			}
		}
	}
	resp.ErrorCode, resp.ErrorMessage = h.answer("UpdateFeatures", err)
	if err == nil && req.Version < 2 {
		for i := range req.FeatureUpdates {
			r := kmsg.NewUpdateFeaturesResponseResult()
			r.Feature = req.FeatureUpdates[i].Feature
			resp.Results = append(resp.Results, r)
		}
	}
	return resp
}

// checkFeature says why a feature cannot have a level.
func checkFeature(im *meta.Image, name string, level int16, kind int8) error {
	const failed = "The update failed for all features since the following feature had an error: "
	invalid := func(reason string, args ...any) error {
		return fail(kerr.InvalidUpdateVersion, failed+"Invalid update version %d for feature %s. "+reason, append([]any{level, name}, args...)...)
	}
	f := config.FeatureNamed(name)
	switch {
	case kind < featureUpgrade || kind > featureUnsafeDowngrade:
		return invalid("The controller does not support the given upgrade type.")
	case level < 0:
		return invalid("A feature version cannot be less than 0.")
	case f == nil:
		return invalid("Local controller %d does not support this feature.", im.ControllerID)
	case level < f.Min || level > f.Max:
		return invalid("Local controller %d only supports versions %d-%d", im.ControllerID, f.Min, f.Max)
	}
	current := f.In(im.Features)
	switch {
	case level < current && kind == featureUpgrade:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > current && kind != featureUpgrade:
		return invalid("Can't downgrade to a newer version.")
	case level < current && f.Fixed && kind == featureSafeDowngrade:
		return fail(kerr.InvalidUpdateVersion, failed+"Unsupported %s downgrade from %d to %d. Refusing to perform the requested downgrade because it might delete metadata information.", name, current, level)
	case level < current && f.Fixed:
		return fail(kerr.InvalidUpdateVersion, failed+"Unsupported %s downgrade from %d to %d. Unsafe metadata downgrade is not supported in this version.", name, current, level)
	}
	return nil
}
