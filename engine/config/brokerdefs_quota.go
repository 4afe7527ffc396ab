package config

// Quotas is how client quotas are measured, and the quotas that are the node's
// own.
type Quotas struct {
	Samples, WindowSeconds                 int   // quota.window.*
	MutationSamples, MutationWindowSeconds int   // controller.quota.window.*
	ConnectionRate                         int32 // new connections a second; math.MaxInt32: no limit
}

// quotaTable holds the keys of quotas (QuotaConfig.java, SocketServerConfigs.java).
var quotaTable = []brokerDef{
	{Definition{Name: "quota.window.num", Type: Int, Default: "11", check: atLeast(1),
		Doc: "Time windows that the rates of clients are measured over."},
		func(b *Broker, v Value) { b.Quotas.Samples = int(v.Int) }},
	{Definition{Name: "quota.window.size.seconds", Type: Int, Default: "1", check: atLeast(1),
		Doc: "Length of such a window in seconds."},
		func(b *Broker, v Value) { b.Quotas.WindowSeconds = int(v.Int) }},
	{Definition{Name: "controller.quota.window.num", Type: Int, Default: "11", check: atLeast(1),
		Doc: "Time windows that the rates of created and deleted partitions are measured over."},
		func(b *Broker, v Value) { b.Quotas.MutationSamples = int(v.Int) }},
	{Definition{Name: "controller.quota.window.size.seconds", Type: Int, Default: "1", check: atLeast(1),
		Doc: "Length of such a window in seconds."},
		func(b *Broker, v Value) { b.Quotas.MutationWindowSeconds = int(v.Int) }},
	{Definition{Name: "max.connection.creation.rate", Type: Int, Default: maxInt, Update: ClusterWide, check: atLeast(0),
		Doc: "Most new connections per second; beyond it they wait to be accepted."},
		func(b *Broker, v Value) { b.Quotas.ConnectionRate = int32(v.Int) }},
}
