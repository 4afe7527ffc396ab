package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (h *Handlers) Metadata(ctx context.Context, req *kmsg.MetadataRequest, cl Client) *kmsg.MetadataResponse {
	return nil
}
func (h *Handlers) CreateTopics(ctx context.Context, req *kmsg.CreateTopicsRequest, cl Client) *kmsg.CreateTopicsResponse {
	return nil
}
func (h *Handlers) DeleteTopics(ctx context.Context, req *kmsg.DeleteTopicsRequest, cl Client) *kmsg.DeleteTopicsResponse {
	return nil
}
func (h *Handlers) CreatePartitions(ctx context.Context, req *kmsg.CreatePartitionsRequest, cl Client) *kmsg.CreatePartitionsResponse {
	return nil
}
func (h *Handlers) DescribeConfigs(ctx context.Context, req *kmsg.DescribeConfigsRequest, cl Client) *kmsg.DescribeConfigsResponse {
	return nil
}
func (h *Handlers) AlterConfigs(ctx context.Context, req *kmsg.AlterConfigsRequest, cl Client) *kmsg.AlterConfigsResponse {
	return nil
}
func (h *Handlers) IncrementalAlterConfigs(ctx context.Context, req *kmsg.IncrementalAlterConfigsRequest, cl Client) *kmsg.IncrementalAlterConfigsResponse {
	return nil
}
func (h *Handlers) DescribeCluster(ctx context.Context, req *kmsg.DescribeClusterRequest, cl Client) *kmsg.DescribeClusterResponse {
	return nil
}
func (h *Handlers) DescribeTopicPartitions(ctx context.Context, req *kmsg.DescribeTopicPartitionsRequest, cl Client) *kmsg.DescribeTopicPartitionsResponse {
	return nil
}
func (h *Handlers) DescribeLogDirs(ctx context.Context, req *kmsg.DescribeLogDirsRequest, cl Client) *kmsg.DescribeLogDirsResponse {
	return nil
}
func (h *Handlers) DeleteRecords(ctx context.Context, req *kmsg.DeleteRecordsRequest, cl Client) *kmsg.DeleteRecordsResponse {
	return nil
}
