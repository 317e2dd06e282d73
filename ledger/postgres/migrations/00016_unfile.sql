-- +goose Up

-- unfile removes those of the given archived deliveries that are past their time. Who files a delivery anew calls it: the row that is
-- there keeps its name, and a sweep would take it soon. It answers how many.
-- +goose StatementBegin
CREATE FUNCTION unfile(keys uuid[], deliveries bytea[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    gone bigint;
BEGIN
    DELETE FROM archive d WHERE d.ctid = ANY(ARRAY(
        SELECT x.place FROM unnest(keys, deliveries) AS a(key, delivery)
        CROSS JOIN LATERAL (SELECT x.ctid AS place FROM archive x WHERE x.key = a.key AND x.delivery = a.delivery
            AND x.expiry < clock_timestamp() FOR UPDATE SKIP LOCKED) x));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION unfile(uuid[], bytea[]) FROM PUBLIC;

-- Who swept before does so without a grant anew.
-- +goose StatementBegin
DO $$
DECLARE
    may record;
BEGIN
    FOR may IN SELECT r.rolname FROM pg_proc p, aclexplode(p.proacl) a, pg_roles r
        WHERE p.oid = 'sweep_archive(bigint, bigint, bigint, bigint)'::regprocedure AND r.oid = a.grantee AND a.grantee <> p.proowner
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION unfile(uuid[], bytea[]) TO %I', may.rolname);
    END LOOP;
END $$;
-- +goose StatementEnd

UPDATE meta SET schema_version = 16 WHERE schema_version < 16;

-- +goose Down
UPDATE meta SET schema_version = 15;
DROP FUNCTION unfile(uuid[], bytea[]);
