package services

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SetShareGroup alters the settings of a share group, such as share.delivery.count.limit, and waits until the brokers know them. The group need
// not be there yet.
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
	return waitForShareGroup(ctx, client, group, settings)
}

// waitForShareGroup asks until the settings of a share group are those: what a controller has taken in comes to a broker later.
func waitForShareGroup(ctx context.Context, client *kgo.Client, group string, settings map[string]string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req := kmsg.NewPtrDescribeConfigsRequest()
	of := kmsg.NewDescribeConfigsRequestResource()
	of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	req.Resources = append(req.Resources, of)
	for {
		known := map[string]string{}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("services: describe share group %q: %w", group, err)
		}
		for _, r := range resp.Resources {
			for _, c := range r.Configs {
				if c.Value != nil {
					known[c.Name] = *c.Value
				}
			}
		}
		missing := ""
		for name, value := range settings {
			if known[name] != value {
				missing = name
			}
		}
		if missing == "" {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("services: share group %q: %s is %q: %w", group, missing, known[missing], ctx.Err())
		}
	}
}
