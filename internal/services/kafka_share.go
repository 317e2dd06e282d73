package services

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SetShareGroup alters the settings of a share group, such as share.delivery.count.limit. The group need not be there yet.
func SetShareGroup(ctx context.Context, client *kgo.Client, group string, settings map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	of := kmsg.NewIncrementalAlterConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, kmsg.StringPtr(settings[name])
		of.Configs = append(of.Configs, c)
	}
	req.Resources = append(req.Resources, of)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("services: alter share group %q: %w", group, err)
	}
	for i := range resp.Resources {
		if err := kerr.ErrorForCode(resp.Resources[i].ErrorCode); err != nil {
			return fmt.Errorf("services: alter share group %q: %w", group, err)
		}
	}
	return nil
}
